select order_id, {{ dbt.concat(["'order'", "order_id"]) }} as label, customer, audit.runs
from {{ ref('stg_orders') }}
cross join (select count(*) as runs from {{ source('shop', 'audit') }}) as audit
