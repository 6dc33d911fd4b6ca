"""Makes chat_cases.json: templates of our own with the constructs of published ones, and what Jinja renders of them.

make_chat_cases.py OUT, in an environment with transformers.
"""
import json
import sys

from transformers.utils.chat_template_utils import _compile_jinja_template

TEMPLATES = {
    "turns": "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}{{ '[sys]none[end]\n' }}{% endif %}"
             "{{'[' + m['role'] + ']' + m['content'] | trim + '[end]' + '\n'}}{% endfor %}\n"
             "{% if add_generation_prompt %}\n  {{ '[assistant]' }}\n{% endif %}\n",
    "space": "  {% if true %}  \n a {%- set x = 1 %} b \n\t{% endif %}\n\n{# c #}\n d{{ x -}}  \n e {%+ if true %}f{% endif +%}\n"
             "{% raw %}{{ no }}{% endraw %}\n{%- for i in range(3) -%} {{ i }} {%- else %}none{% endfor %}\n\n",
    "scopes": "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}"
              "{% set ns = namespace(n=0, t='') %}{% for k, v in {'b': 1, 'a': 2}|dictsort %}{% set ns.n = ns.n + v %}"
              "{% set ns.t = ns.t ~ k %}{% endfor %}{{ ns.n }}{{ ns.t }}{% if x %}{% set y = 2 %}{% endif %}{{ y }}",
    "macros": "{% macro part(c, sep=', ') %}{% if c is string %}{{ c }}{% elif c is iterable and c is not mapping %}"
              "{% for p in c %}{{ p.text if p.type == 'text' else '?' }}{{ sep if not loop.last }}{% endfor %}"
              "{% else %}{{ c }}{% endif %}{% endmacro %}{% set all %}{% for m in messages %}<{{ part(m.content, sep='/') }}>"
              "{% endfor %}{% endset %}{{ all | upper if add_generation_prompt else all }}",
    "lists": "{{ messages[1:] | length }} {{ messages[::-1] | map(attribute='role') | join('+') }} "
             "{{ messages | selectattr('role', 'equalto', 'user') | list | length }} "
             "{{ messages | rejectattr('role', 'in', ['user', 'tool']) | map(attribute='role') | list }} "
             "{{ (messages | last).role if messages }} {{ [1, 2.5, none, true, 'a\\'b', {'k': ('t',)}] }} "
             "{% for m in messages if m.role != 'user' %}{{ loop.index }}/{{ loop.length }}{{ loop.previtem.role }},{% endfor %}",
    "strings": "{% for m in messages %}{% set c = m.content if m.content is string else '' %}{{ c.split('</t>')[0].lstrip('\n') }}|"
               "{{ c.split() }}|{{ c[1:-1] }}|{{ c[::-1] }}|{{ c | length }}|{{ c.title() }}|{{ c | tojson }}|"
               "{{ c.replace('a', 'ä') }}|{{ c.startswith('h') and not c.endswith(('o', 'x')) }}|{{ c | title }}\n{% endfor %}",
    "json": "{{ tools | tojson }}\n{{ tools | tojson(indent=2) }}\n{{ tools }}\n{% for t in tools or [] %}"
            "{% for k, v in t.items() %}{{ k }}={{ v | string }};{% endfor %}{% endfor %}"
            "{{ {'a': 1.0, 'b': 1e20, 'c': 0.00001} | tojson }}{{ 7 // 2 }}{{ -7 // 2 }}{{ -7 % 3 }}{{ 7 / 2 }}{{ 2 ** 3 }}",
    "marks": "{% for m in messages %}{% if m.role == 'assistant' %}[a]{% generation %}{{ m.content }}[end]{% endgeneration %}\n"
             "{% else %}[{{ m.role }}]{{ m.content }}[end]\n{% endif %}{% endfor %}",
    "jumps": "{% for m in messages %}{% if m.role == 'tool' %}{% continue %}{% endif %}{% if loop.index > 3 %}{% break %}{% endif %}"
             "{{ loop.index }}{{ m.role[0] }}{% endfor %}{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ missing is defined }}{{ missing }}"
             "{{ missing | default('d') }}{{ '' | default('e', true) }}{{ not missing and 'f' }}",
    "refuses": "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}"
               "{{ m.role }}{% endfor %}",
}

TOOLS = [{"name": "f", "description": "it's \"q\" <b>&\u00e9\U0001f600", "parameters": {"n": 1, "x": [True, None, 1.5, -0.0], "o": {}}}]
MESSAGES = [
    [{"role": "user", "content": "  hello\n"}, {"role": "assistant", "content": "th</t>\n wörld's end 日本 "}],
    [{"role": "system", "content": ""}, {"role": "user", "content": "a"}, {"role": "tool", "content": "{}"}, {"role": "odd", "content": "x-y (z"}],
    [{"role": "user", "content": [{"type": "text", "text": "p"}, {"type": "image"}, {"type": "text", "text": "\u2028q"}]},
     {"role": "assistant", "content": None}],
    [],
]


def cases():
    for name, text in TEMPLATES.items():
        template, runs = _compile_jinja_template(text), []
        for messages in MESSAGES:
            for tools, prompt in ((None, False), (TOOLS, True)):
                given = dict(messages=messages, tools=tools, add_generation_prompt=prompt, bos_token="<s>")
                try:
                    runs.append(dict(given=given, text=template.render(**given)))
                except Exception as error:  # any exception: the template refuses
                    runs.append(dict(given=given, error=type(error).__name__))
        yield dict(name=name, template=text, runs=runs)


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(list(cases()), file, indent=1, ensure_ascii=True)
        file.write("\n")
