{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key='customer_id',
    delete_condition='DBT_INTERNAL_SOURCE.customer_name is null',
    not_matched_condition='DBT_INTERNAL_SOURCE.customer_name is not null',
    on_schema_change='append_new_columns',
) }}

{# What is new since the last build: of which tables, and with which loads. #}
{%- set since = newest_loads_applied(['_customers_load_id', '_sites_load_id', '_orders_load_id']) -%}

with

customers as (

    select * from {{ ref('cur_shop__customers') }}

),

sites as (

    select * from {{ ref('cur_shop__customer_sites') }}

),

orders as (

    select * from {{ ref('cur_shop__sales_orders') }}

),

touched_orders as (

    {{ versions_of_touched_keys(
        ref('hist_shop__sales_orders'),
        ref('stg_shop__sales_orders'),
        key=['order_id'],
        since=since['_orders_load_id'],
    ) | indent(4) }}

),

-- A site that went from one customer to another concerns both.
touched_sites as (

    {{ versions_of_touched_keys(
        ref('hist_shop__customer_sites'),
        ref('stg_shop__customer_sites'),
        key=['site_id'],
        since=since['_sites_load_id'],
    ) | indent(4) }}

),

touched_customers as (

    {{ versions_of_touched_keys(
        ref('hist_shop__customers'),
        ref('stg_shop__customers'),
        key=['customer_id'],
        since=since['_customers_load_id'],
    ) | indent(4) }}

),

to_do as (

    select customer_id from touched_customers
    union
    select customer_id from touched_sites
    union
    select all_sites.customer_id
    from {{ ref('hist_shop__customer_sites') }} as all_sites
    left semi join touched_orders
        on all_sites.site_id = touched_orders.site_id

),

per_customer as (

    select
        sites.customer_id,
        count(orders.order_id) as order_count,
        count_if(orders.status = 'open') as open_order_count,
        cast(sum(if(orders.status = 'cancelled', 0, orders.amount)) as decimal(18, 2))
            as order_amount,
        max(orders.ordered_at) as last_ordered_at

    from sites

    inner join orders
        on sites.site_id = orders.site_id

    group by sites.customer_id

)

select
    to_do.customer_id,
    customers.customer_name,
    customers.segment,
    coalesce(per_customer.order_count, 0) as order_count,
    coalesce(per_customer.open_order_count, 0) as open_order_count,
    coalesce(per_customer.order_amount, 0) as order_amount,
    per_customer.last_ordered_at,
    (select coalesce(max(news._load_id), 0) from {{ ref('stg_shop__customers') }} as news)
        as _customers_load_id,
    (select coalesce(max(news._load_id), 0) from {{ ref('stg_shop__customer_sites') }} as news)
        as _sites_load_id,
    (select coalesce(max(news._load_id), 0) from {{ ref('stg_shop__sales_orders') }} as news)
        as _orders_load_id

from to_do

left join customers
    on to_do.customer_id = customers.customer_id

left join per_customer
    on to_do.customer_id = per_customer.customer_id

{% if not is_incremental() -%}
where customers.customer_id is not null
{%- endif %}
