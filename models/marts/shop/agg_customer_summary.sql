{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key='customer_id',
    delete_condition='DBT_INTERNAL_SOURCE.order_count is null',
    not_matched_condition='DBT_INTERNAL_SOURCE.order_count is not null',
    on_schema_change='append_new_columns',
) }}

{# The newest applied load of each source. Later loads decide which customers to recompute. #}
{%- set since = tidemark.newest_loads_applied(['_customers_load_id', '_sites_load_id', '_orders_load_id']) -%}

with

customers as (

    select * from {{ ref('hist_shop__customers') }}

),

sites as (

    select * from {{ ref('hist_shop__customer_sites') }}

),

orders as (

    select * from {{ ref('hist_shop__sales_orders') }}

),

touched_customers as (

    {{ tidemark.values_of_touched_keys(
        ref('stg_shop__customers'),
        key=['customer_id'],
        columns=['customer_id'],
        since=since['_customers_load_id'],
    ) | indent(4) }}

),

-- A site that moved from one customer to another affects both.
touched_sites as (

    {{ tidemark.values_of_touched_keys(
        ref('stg_shop__customer_sites'),
        key=['site_id'],
        columns=['customer_id'],
        since=since['_sites_load_id'],
    ) | indent(4) }}

),

touched_orders as (

    {{ tidemark.values_of_touched_keys(
        ref('stg_shop__sales_orders'),
        key=['order_id'],
        columns=['site_id'],
        since=since['_orders_load_id'],
    ) | indent(4) }}

),

to_do as (

    select customer_id from touched_customers
    where customer_id is not null
    union
    select customer_id from touched_sites
    where customer_id is not null
    union
    select sites.customer_id
    from sites
    left semi join touched_orders
        on sites.site_id = touched_orders.site_id
    where sites.customer_id is not null

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

    where
        sites.is_current
        and orders.is_current

    group by sites.customer_id

),

-- A deleted customer has no counts, and the merge deletes it.
counted as (

    select
        to_do.customer_id,
        customers.customer_name,
        customers.segment,
        if(customers.customer_id is null, null, coalesce(per_customer.order_count, 0))
            as order_count,
        coalesce(per_customer.open_order_count, 0) as open_order_count,
        coalesce(per_customer.order_amount, 0) as order_amount,
        per_customer.last_ordered_at

    from to_do

    left join customers
        on
            to_do.customer_id = customers.customer_id
            and customers.is_current

    left join per_customer
        on to_do.customer_id = per_customer.customer_id

)

select
    customer_id,
    customer_name,
    segment,
    order_count,
    open_order_count,
    order_amount,
    last_ordered_at,
    (select coalesce(max(customers._load_id), 0) from customers) as _customers_load_id,
    (select coalesce(max(sites._load_id), 0) from sites) as _sites_load_id,
    (select coalesce(max(orders._load_id), 0) from orders) as _orders_load_id

from counted

{% if not is_incremental() -%}
where order_count is not null
{%- endif %}
