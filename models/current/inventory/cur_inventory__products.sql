{{ config(unique_key=['product_id'], partition_by='category') }}

{{ current_from_changes(ref('stg_inventory__products'), feed('inventory', 'products')) }}
