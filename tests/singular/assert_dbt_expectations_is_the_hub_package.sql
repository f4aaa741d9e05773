-- In production the data tests run on the hub package, not on our stand-in for it (compat/).
{{ config(enabled=target.name == 'prod') }}

{% if dbt_expectations.is_stand_in is defined %}
select 'stand-in for dbt_expectations' as finding
{% else %}
select 'hub package' as finding
where 1 = 0
{% endif %}
