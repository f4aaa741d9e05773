-- Says when the data tests run on our stand-in instead of the hub package (compat/).
{{ config(severity='error' if target.name == 'prod' else 'warn') }}

{% if dbt_expectations.is_stand_in is defined %}
select 'stand-in for dbt_expectations' as finding
{% else %}
select 'hub package' as finding
where 1 = 0
{% endif %}
