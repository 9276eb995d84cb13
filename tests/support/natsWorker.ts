/** A worker of the toy world as a process of its own, which tests kill: natsWorker.ts URL NAME PAUSE. */
import process from "node:process";
import { serveNats } from "../../distribute/nats/serve.ts";
import { letters, toySpec, toyTemplate } from "./rlToy.ts";

const [, , server, name, pause] = process.argv;
const slow = toySpec(async (action, turn) => {
  await new Promise((resolve) => setTimeout(resolve, Number(pause)));
  return letters(2)(action, turn);
});
await serveNats({
  server: server!,
  name: name!,
  environments: { toy: slow },
  template: toyTemplate,
  episodes: 4,
  note: (line) => console.log(line),
});
