// A worker in Node: stock gRPC and the contract in proto/, nothing else. README.md says how to run it.
const { randomUUID } = require("node:crypto");
const { hostname } = require("node:os");
const { setTimeout: sleep } = require("node:timers/promises");
const { promisify } = require("node:util");
const grpc = require("@grpc/grpc-js");
const { loadSync } = require("@grpc/proto-loader");

// A handler gets the job's arguments and a signal that asks it to stop. It fails by throwing.
const handlers = {
  "send-email": async ({ to }) => console.log(`hello, ${to}`),
  "render-report": async ({ seconds }, signal) => {
    console.log(`rendering for ${seconds} s`);
    await sleep(seconds * 1000, undefined, { signal });
  },
};

const includeDirs = [`${__dirname}/../../proto`];
const contract = loadSync("pulse/v1/worker.proto", { includeDirs, keepCase: true, longs: Number, arrays: true });
const { WorkerService } = grpc.loadPackageDefinition(contract).pulse.v1;
const address = process.env.PULSE_ADDR ?? "localhost:50051";
const server = new WorkerService(address, grpc.credentials.createInsecure(), { "grpc.keepalive_time_ms": 30_000 });
const call = (method, request) => promisify(server[method]).call(server, request, { deadline: Date.now() + 10_000 });

const worker_id = randomUUID();
const held = new Map(); // what we owe a report: "job_id attempt" -> { ref, lease, stop }
const keyOf = ({ job_id, attempt }) => `${job_id} ${attempt}`;
const stop = (ref) => held.get(keyOf(ref))?.stop.abort();
const drop = (ref) => held.delete(keyOf(ref));

async function run({ job_id, attempt, topic, payload, lease }) {
  const ref = { job_id, attempt };
  const stop = new AbortController();
  held.set(keyOf(ref), { ref, stop, lease: lease.seconds * 1000 });
  const succeeded = () => ({ success: {} });
  const failed = (error) => ({ failure: { error: String(error) } });
  const handle = async () => handlers[topic](JSON.parse(payload), stop.signal);
  const outcome = await handle().then(succeeded, failed);
  const isStale = ({ code }) => code === grpc.status.FAILED_PRECONDITION; // not ours any more, or known already
  const refused = (error) => (isStale(error) ? drop(ref) : sleep(Math.random() * 2000));
  while (held.has(keyOf(ref))) {
    await call("ReportResult", { worker_id, result: { ...ref, ...outcome } }).then(() => drop(ref), refused);
  }
}

let lastBeat = 0;
async function beat() {
  const shortest = Math.min(...Array.from(held.values(), ({ lease }) => lease)); // Infinity if nothing is held
  if (Date.now() - lastBeat < shortest / 3) return;
  lastBeat = Date.now();
  const answer = await call("Heartbeat", { worker_id, held: Array.from(held.values(), ({ ref }) => ref) });
  [...answer.lost, ...answer.cancellations].forEach(stop);
  answer.lost.forEach(drop); // and so it is never reported
}
setInterval(() => beat().catch((error) => console.error(`heartbeat: ${error.message}`)), 250);

let stream;
let leaving = false;
async function work() {
  while (!leaving) {
    stream = server.StreamJobs({ worker_id, topics: Object.keys(handlers), capacity: 20, host: hostname() });
    stream.once("data", () => console.log("connected")); // the first message is empty: it says hello
    try {
      for await (const { assignments, cancellations } of stream) {
        assignments.forEach(run);
        cancellations.forEach(stop);
      }
    } catch (error) {
      if (leaving) break;
      console.error(`stream: ${error.message}`);
      await sleep(Math.random() * 5000);
    }
  }
  while (held.size) await sleep(50); // nothing new, but what was begun is finished, and beaten for until then
}
const leave = () => ((leaving = true), stream.cancel());
process.once("SIGTERM", leave).once("SIGINT", leave);
work().then(() => process.exit());
