{{ config(unique_key=['article_id']) }}

{{ current_from_changes(
    ref('stg_partner__price_list'),
    feed('partner', 'price_list'),
) }}
