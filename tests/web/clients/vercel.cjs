// A chat with the real client of the Vercel AI SDK. Each line of the input is a command; its answer is a line of JSON.
const readline = require("node:readline");
const { AbstractChat, DefaultChatTransport, isToolUIPart } = require("ai");
const { lastAssistantMessageIsCompleteWithApprovalResponses } = require("ai");

class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => this.messages.push(message);
  popMessage = () => this.messages.pop();
  replaceMessage = (index, message) => (this.messages[index] = message);
  snapshot = (thing) => structuredClone(thing);
}

class Chat extends AbstractChat {
  constructor(settings) {
    super({ ...settings, state: new State(), onError: () => this.settle(), onFinish: () => this.settle() });
  }
  settle = () => {};
  settled = () => new Promise((resolve) => (this.settle = () => setTimeout(resolve)));
}

let chat, also;
const sent = [];

async function remember(url, init) {
  sent.push([url, init]);
  const twin = also && fetch(also, init).then((answer) => answer.text());
  const answer = await fetch(url, init);
  await twin;
  return answer;
}

const parts = () => chat.messages.flatMap((message) => message.parts).filter(isToolUIPart);
const waiting = () => parts().filter((part) => part.state === "approval-requested");

const commands = {
  open({ url, user, id, twin }) {
    also = twin;
    const headers = { authorization: `Bearer ${user}` };
    const messages = chat?.messages ?? [];
    const transport = new DefaultChatTransport({ api: url, headers, fetch: remember });
    chat = new Chat({ id, transport, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
    chat.messages = messages;
  },
  send: ({ text }) => chat.sendMessage({ text }),
  async answer({ approved, reason, body }) {
    const settled = chat.settled();
    for (const part of waiting())
      await chat.addToolApprovalResponse({ id: part.approval.id, approved, reason, options: { body } });
    await settled;
  },
  forge({ tool, input }) {
    const part = { type: `tool-${tool}`, toolCallId: "forged", state: "approval-requested", input };
    const parts = [{ ...part, approval: { id: "forged" } }];
    chat.messages = [{ id: "1", role: "user", parts: [{ type: "text", text: "go" }] }, { id: "2", role: "assistant", parts }];
  },
  tamper({ input }) {
    for (const part of waiting()) part.input = input;
  },
  async replay({ at = -1 }) {
    await (await fetch(...sent.at(at))).text();
  },
};

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { command, ...options } = JSON.parse(line);
    await commands[command](options);
    const text = chat.messages.flatMap((message) => (message.role === "assistant" ? message.parts : []));
    const told = {
      waiting: waiting().map((part) => part.input),
      states: parts().map((part) => part.state),
      said: text.filter((part) => part.type === "text").map((part) => part.text),
      error: chat.error?.message ?? null,
    };
    console.log(JSON.stringify(told));
  }
}

main();
