with

versions as (

    select * from {{ ref('snap_crm__customers') }}

),

with_next as (

    select
        *,
        -- Rows of the first extract count as effective since the dimension's first day.
        greatest(
            to_date(known_at), to_date('{{ var("crm_first_day", "2022-07-01") }}')
        ) as rec_eff_dt,
        lead(to_date(known_at)) over (
            partition by customer_id
            order by valid_from
        ) as next_eff_dt,
        lead(valid_from) over (
            partition by customer_id
            order by valid_from
        ) as next_valid_from

    from versions

),

dated as (

    select
        version_key as customer_sk,
        customer_id,
        person_id,
        first_name,
        last_name,
        employer_name,
        email_id,
        city,
        country,
        rec_eff_dt,
        -- The day before the next version, or before the build that found the customer deleted.
        case
            when valid_to is null then to_date('9999-12-31')
            when next_valid_from <= valid_to then date_sub(next_eff_dt, 1)
            else date_sub(least(to_date(valid_to), next_eff_dt), 1)
        end as rec_exp_dt,
        valid_to is null as is_current

    from with_next

)

select
    customer_sk,
    customer_id,
    person_id,
    first_name,
    last_name,
    employer_name,
    email_id,
    city,
    country,
    rec_eff_dt,
    rec_exp_dt,
    is_current

from dated

-- Of two versions within a day, the day belongs to the later one.
where rec_eff_dt <= rec_exp_dt
