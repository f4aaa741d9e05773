with

orders as (

    select * from {{ ref('cur_shop__sales_orders') }}

),

-- The shop's history begins with the replication: older orders count by its first day.
dated as (

    select
        order_id,
        site_id,
        ordered_at,
        greatest(ordered_at, timestamp'{{ var("shop_first_instant") }}') as known_at,
        amount,
        status

    from orders

),

with_site as (

    select
        dated.*,
        sites.customer_id,
        sites.country

    from dated

    {{ left_join_as_of(
        ref('hist_shop__customer_sites'),
        alias='sites',
        on={'site_id': 'dated.site_id'},
        at='dated.known_at',
    ) }}

),

with_customer as (

    select
        with_site.*,
        customers.version_key as customer_version_key,
        customers.segment

    from with_site

    {{ left_join_as_of(
        ref('hist_shop__customers'),
        alias='customers',
        on={'customer_id': 'with_site.customer_id'},
        at='with_site.known_at',
    ) }}

)

select
    order_id,
    customer_id,
    customer_version_key,
    segment,
    country,
    ordered_at,
    to_date(ordered_at) as ordered_on,
    status,
    amount

from with_customer
