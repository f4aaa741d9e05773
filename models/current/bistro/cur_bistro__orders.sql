{{ config(unique_key=['id']) }}

{{ current_from_changes(
    ref('stg_bistro__orders'),
    feed('bistro', 'orders'),
) }}
