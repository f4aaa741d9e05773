{{ history_from_changes(ref('stg_inventory__products'), feed('inventory', 'products')) }}
