{#
    A table as a run left it, by time travel. Each commit has the id of its run. A run that
    did not write the table left the version that was the newest when the run landed its files.
#}
{%- macro as_of_run(relation, run_id) -%}
    {%- if not execute -%}
        {{ return(relation) }}
    {%- endif -%}
    {%- set format = tidemark.table_format(tidemark.format_of_table(relation)) -%}
    {%- call statement('versions', fetch_result=true) -%}
        {{ format.versions(relation) }}
    {%- endcall -%}
    {%- set history = load_result('versions') -%}
    {%- set versions = [] -%}
    {%- for row in history.data -%}
        {%- do versions.append(dict(zip(history.table.column_names, row))) -%}
    {%- endfor -%}
    {%- set found = versions | selectattr('userMetadata', 'equalto', run_id) | list -%}
    {%- if not found -%}
        {%- if not format.names_runs() -%}
            {%- do exceptions.raise_compiler_error(
                "as_of_run: with this Spark version, the versions of " ~ relation ~ " do not name their runs. Use "
                ~ "the id of a version instead: `version as of <id>`. They are in " ~ relation ~ ".history."
            ) -%}
        {%- endif -%}
        {%- call statement('time_of_run', fetch_result=true) -%}
            select max(at) from tidemark.runs where run_id = '{{ run_id | replace("'", "' || chr(39) || '") }}'
        {%- endcall -%}
        {%- set at = load_result('time_of_run').data[0][0] -%}
        {%- if at is none -%}
            {%- do exceptions.raise_compiler_error(
                "as_of_run: no run with the id '" ~ run_id ~ "' has landed rows. The last runs that wrote "
                ~ relation ~ ": "
                ~ (versions | map(attribute='userMetadata') | select | unique | list)[:5] | join(', ') ~ "."
            ) -%}
        {%- endif -%}
        {%- for version in versions if version.timestamp <= at -%}
            {%- do found.append(version) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- if not found -%}
        {%- do exceptions.raise_compiler_error(
            "as_of_run: " ~ relation ~ " did not exist at the time of the run '" ~ run_id ~ "'."
        ) -%}
    {%- endif -%}
    {{ relation }} version as of {{ found[0].version }}
{%- endmacro -%}
