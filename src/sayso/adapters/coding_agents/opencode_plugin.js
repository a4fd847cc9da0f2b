// Asks `sayso hook opencode` before every tool call: whatever is not a whole "allow" stops the call.
// Written by `sayso setup opencode`, which puts the command in; opencode loads what lies in its folder of plugins.
import { spawn } from "node:child_process"

const COMMAND = ["sayso", "hook", "opencode"]

function ask(event) {
  return new Promise((resolve, reject) => {
    const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
    const said = []
    child.on("error", (error) => reject(new Error(`Not executed: sayso could not be started (${error.message}).`)))
    child.stdin.on("error", () => {}) // it has ended already, and its exit code says how
    child.stdout.on("data", (data) => said.push(data))
    child.on("close", (code) => {
      if (code === 0) resolve(Buffer.concat(said).toString("utf8"))
      else reject(new Error("Not executed: sayso ended without a decision."))
    })
    child.stdin.end(JSON.stringify(event))
  })
}

export const Sayso = async ({ directory }) => {
  const event = (kind, input, args) => ({
    event: kind,
    session: input.sessionID,
    folder: directory,
    tool: input.tool,
    args,
    call: input.callID,
  })
  return {
    "tool.execute.before": async (input, output) => {
      const said = JSON.parse(await ask(event("before", input, output.args)))
      if (said.decision !== "allow") throw new Error(said.reason || "Not executed: sayso refuses it.")
      if (said.args === undefined) return
      for (const name of Object.keys(output.args)) delete output.args[name]
      Object.assign(output.args, said.args)
    },
    "tool.execute.after": async (input, output) => {
      await ask({ ...event("after", input, input.args ?? {}), tool_response: output.output }).catch(() => {})
    },
  }
}
