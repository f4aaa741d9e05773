with

orders as (

    select * from {{ ref('cur_shop__sales_orders') }}

),

-- The first known version of a site or customer is assumed to be valid before, too.
sites_ever as (

    select
        *,
        if(version_number = 1, timestamp '0001-01-01', valid_from) as holds_from

    from {{ ref('hist_shop__customer_sites') }}

),

customers_ever as (

    select
        *,
        if(version_number = 1, timestamp '0001-01-01', valid_from) as holds_from

    from {{ ref('hist_shop__customers') }}

),

with_site as (

    select
        orders.*,
        sites.customer_id,
        sites.country

    from orders

    {{ tidemark.left_join_as_of(
        'sites_ever',
        alias='sites',
        on={'site_id': 'orders.site_id'},
        at='orders.ordered_at',
        column_names={'valid_from': 'holds_from'},
    ) }}

),

with_customer as (

    select
        with_site.*,
        customers.version_key as customer_version_key,
        customers.segment

    from with_site

    {{ tidemark.left_join_as_of(
        'customers_ever',
        alias='customers',
        on={'customer_id': 'with_site.customer_id'},
        at='with_site.ordered_at',
        column_names={'valid_from': 'holds_from'},
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
