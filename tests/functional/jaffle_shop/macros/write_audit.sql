{% macro write_audit() %}
    {% if execute %}
        {% do run_query('create schema if not exists ' ~ target.schema) %}
        {% do run_query('create table if not exists ' ~ target.schema ~ '.audit (at timestamp) using delta') %}
        {% do run_query('insert into ' ~ target.schema ~ '.audit values (now())') %}
    {% endif %}
{% endmacro %}
