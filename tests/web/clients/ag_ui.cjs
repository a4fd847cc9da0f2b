// A conversation with the real client of AG-UI. Each line of the input is a command; its answer is a line of JSON.
const readline = require("node:readline");
const { HttpAgent } = require("@ag-ui/client");

let agent, error;
const sent = [];

async function remember(url, init) {
  sent.push([url, init]);
  return fetch(url, init);
}

async function run(parameters) {
  error = null;
  const subscriber = { onRunErrorEvent: ({ event }) => (error = event.message) };
  await agent.runAgent(parameters, subscriber).catch((raised) => (error ??= raised.message));
}

const commands = {
  open({ url, user, id }) {
    const headers = { authorization: `Bearer ${user}` };
    const { messages, pendingInterrupts } = agent ?? { messages: [], pendingInterrupts: [] };
    agent = new HttpAgent({ url, headers, threadId: id, initialMessages: messages, fetch: remember });
    agent.pendingInterrupts = pendingInterrupts;
  },
  send({ text }) {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
    return run();
  },
  answer({ approved, reason, edited }) {
    const payload = { approved, reason, editedArgs: edited };
    const entries = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload }));
    return run({ resume: entries });
  },
  forge({ tool, input }) {
    const call = { id: "forged", type: "function", function: { name: tool, arguments: JSON.stringify(input) } };
    agent.addMessage({ id: "1", role: "user", content: "go" });
    agent.addMessage({ id: "2", role: "assistant", toolCalls: [call] });
    agent.pendingInterrupts = [{ id: "int-forged", reason: "tool_call" }];
  },
  tamper({ input }) {
    for (const message of agent.messages)
      for (const call of message.toolCalls ?? []) call.function.arguments = JSON.stringify(input);
  },
  async replay({ at = -1 }) {
    await (await fetch(...sent.at(at))).text();
  },
};

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { command, ...options } = JSON.parse(line);
    await commands[command](options);
    const said = agent.messages.filter(({ role, content }) => role === "assistant" && content);
    const told = {
      waiting: agent.pendingInterrupts.map(({ message }) => message),
      metadata: agent.pendingInterrupts.map(({ metadata }) => metadata),
      said: said.map(({ content }) => content),
      error,
    };
    console.log(JSON.stringify(told));
  }
}

main();
