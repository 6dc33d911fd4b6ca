"use strict";
/* The page of `trireme serve`: a conversation, or texts that the model continues. Answers are read as streams. */

const $ = (id) => document.getElementById(id);
const key = new URLSearchParams(location.search).get("token");
const headers = { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
const messages = [];
let running = null;

function say(text, bad) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", Boolean(bad));
}

function paragraph(kind, given) {
  const element = document.createElement("p");
  element.className = kind;
  if (given) {
    const before = document.createElement("span");
    before.className = "given";
    before.textContent = given;
    element.append(before);
  }
  const text = document.createTextNode("");
  element.append(text);
  $("log").append(element);
  return text;
}

/* Calls `take` with each event of a stream. */
async function readEvents(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (held + value).split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      if (part.startsWith("data: ") && part !== "data: [DONE]") take(JSON.parse(part.slice(6)));
    }
  }
}

function requestOf(text, chat) {
  const body = { stream: true, stream_options: { include_usage: true }, max_tokens: Number($("tokens").value) };
  if ($("temperature").value !== "") body.temperature = Number($("temperature").value);
  if ($("seed").value !== "") body.seed = Number($("seed").value);
  return chat ? { ...body, messages } : { ...body, prompt: text };
}

async function ask(text, chat) {
  if (chat) messages.push({ role: "user", content: text });
  if (chat) paragraph("user").data = text;
  const to = paragraph("answer", chat ? "" : text), began = performance.now();
  running = new AbortController();
  const answer = await fetch(chat ? "v1/chat/completions" : "v1/completions", {
    method: "POST", headers, body: JSON.stringify(requestOf(text, chat)), signal: running.signal });
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  await readEvents(answer.body, (event) => {
    if (event.error) throw new Error(event.error.message);
    for (const choice of event.choices) to.data += chat ? choice.delta.content ?? "" : choice.text;
    if (event.usage) {
      const seconds = (performance.now() - began) / 1000, tokens = event.usage.completion_tokens;
      say(`${tokens} tokens, ${(tokens / seconds).toFixed(1)} tokens/s, seed ${event.seed}`);
    }
  });
  if (chat) messages.push({ role: "assistant", content: to.data });
}

async function send(event) {
  event.preventDefault();
  if (running) return;
  const text = $("text").value, chat = $("chat").checked, known = messages.length;
  $("send").disabled = true;
  $("stop").disabled = false;
  say("");
  try {
    await ask(text, chat);
    $("text").value = "";
  } catch (fault) {
    messages.length = known;
    say(fault.name === "AbortError" ? "stopped" : fault.message, fault.name !== "AbortError");
  }
  running = null;
  $("send").disabled = false;
  $("stop").disabled = true;
}

async function begin() {
  const models = await fetch("v1/models", { headers });
  if (!models.ok) return say("this server requires its key: open the address that `trireme serve` has printed", true);
  $("model").textContent = (await models.json()).data[0].id;
  const info = await (await fetch("tokenizer_info", { headers })).json();
  $("chat").checked = info.chat_template !== null;
  $("chat").disabled = info.chat_template === null;
}

$("form").addEventListener("submit", send);
$("stop").addEventListener("click", () => running?.abort());
$("clear").addEventListener("click", () => {
  messages.length = 0;
  $("log").replaceChildren();
  say("");
});
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
});
begin().catch((fault) => say(fault.message, true));
