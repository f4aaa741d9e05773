{{ config(unique_key=['product_id'], partition_by='category') }}

{{ tidemark.current_from_changes(ref('stg_inventory__products'), tidemark.feed('inventory', 'products')) }}
