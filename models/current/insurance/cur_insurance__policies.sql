{{ config(unique_key=['policy_id']) }}

{{ current_from_changes(ref('stg_insurance__policies'), feed('insurance', 'policies')) }}
