select name from {{ ref('cur_club__people') }}
