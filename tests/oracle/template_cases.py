"""Conversations for the presets of chat templates: 12 for each, and more for those that render thoughts and tools."""


def conversation(roles, **contents):
    """Messages by the first letters of their roles, with a text of their own each unless `contents` has it."""
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    texts = {"s": "Answer in {} words.", "u": "What is {} + 1?", "a": "It is {}.", "t": "{}"}
    return [dict(role=names[role], content=contents.get(role, texts[role].format(i))) for i, role in enumerate(roles)]


USUAL = {
    "answer": dict(messages=conversation("ua")),
    "system": dict(messages=conversation("sua")),
    "turns": dict(messages=conversation("uaua")),
    "system and turns": dict(messages=conversation("suauaua")),
    "prompt": dict(messages=conversation("u"), add_generation_prompt=True),
    "prompt of system and turns": dict(messages=conversation("suau"), add_generation_prompt=True),
    "white space": dict(messages=conversation("uaua", u=" \n What? \t\n", a="\n Yes.  \n")),
    "white space in the system message": dict(messages=conversation("sua", s="\n Be brief. \n\n")),
    "no answer": dict(messages=conversation("ua", a="")),
    "two questions": dict(messages=conversation("uua")),
    "an answer first": dict(messages=conversation("aua")),
    "a system message later": dict(messages=conversation("uasua", a="日本語 <|im_end|> </s>")),
}

CALL = dict(type="function", function=dict(name="add", arguments=dict(a=1, b=[2.5, "ü"])))
TOOLS = [dict(type="function", function=dict(name="add", description="Adds.", parameters=dict(type="object", properties=dict(a=dict(type="number")))))]
CALLS = [*conversation("su"), dict(role="assistant", content="", tool_calls=[CALL, CALL]), *conversation("tt"),
         dict(role="assistant", content="Now.", tool_calls=[CALL]), *conversation("taua")]
THOUGHTS = conversation("uaua", a="<think>\nIs it so?\n</think>\n\n\nIt is.")
MORE = {
    "qwen2.5": {"tools": dict(messages=CALLS, tools=TOOLS), "tools without system": dict(messages=CALLS[1:], tools=TOOLS)},
    "qwen3": {
        "tools": dict(messages=CALLS, tools=TOOLS), "tools without system": dict(messages=CALLS[1:], tools=TOOLS),
        "tools, not answered": dict(messages=CALLS[:7], add_generation_prompt=True, tools=TOOLS),
        "tools to the end": dict(messages=[*CALLS[:5], dict(role="assistant", content="Done.", reasoning_content="\nSo.\n")], tools=TOOLS),
        "thoughts": dict(messages=THOUGHTS), "no thoughts": dict(messages=conversation("uaua"), enable_thinking=False),
        "a prompt without thoughts": dict(messages=conversation("u"), enable_thinking=False, add_generation_prompt=True),
    },
    "deepseek3": {"thoughts": dict(messages=THOUGHTS)},
}


def cases(name):
    """All inputs of a template, by their names, with the variables that transformers passes."""
    return {key: dict(given, bos_token="<bos>", eos_token="<eos>", tools=given.get("tools"), add_generation_prompt=given.get("add_generation_prompt", False))
            for key, given in (USUAL | MORE.get(name, {})).items()}
