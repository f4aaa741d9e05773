{#
    The reloads of the log that are not later than the file of a row: an SQL expression on `_reloads`.
-#}
{%- macro reloads_before() -%}
    filter(_reloads, reload -> reload._file_at <= _file_at)
{%- endmacro -%}
