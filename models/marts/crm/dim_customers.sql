with

versions as (

    select * from {{ ref('snap_crm__customers') }}

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
        -- What the first extract has is taken to hold since the dimension's first day.
        greatest(to_date(valid_from), to_date('{{ var("crm_first_day") }}')) as rec_eff_dt,
        coalesce(date_sub(to_date(valid_to), 1), to_date('9999-12-31')) as rec_exp_dt,
        valid_to is null as is_current

    from versions

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

-- Of two versions within a day, the day is the later one's.
where rec_eff_dt <= rec_exp_dt
