// grpc-js on a leash: makes the calls that client.py asks for in JSON lines, and writes what becomes of them.
//
// The only argument is JSON: {address, ca (PEM, or null), options (of the channel), proto (the folder)}.
"use strict";
const { globSync } = require("node:fs");
const { createInterface } = require("node:readline");
const grpc = require("@grpc/grpc-js");
const { loadSync } = require("@grpc/proto-loader");

const { address, ca, options, proto } = JSON.parse(process.argv[2]);
const credentials = ca === null ? grpc.credentials.createInsecure() : grpc.credentials.createSsl(Buffer.from(ca));
const client = new grpc.Client(address, credentials, options);
const contract = loadSync(globSync("**/*.proto", { cwd: proto }), {
  includeDirs: [proto],
  keepCase: true,
  longs: String,
  enums: String,
  bytes: String,
  defaults: true,
});
const calls = new Map();
const write = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

function start({ id, method, requests, metadata, timeout }) {
  const [service, name] = method.split("/");
  const { path, requestSerialize, responseDeserialize, requestStream, responseStream } = contract[service][name];
  const headers = new grpc.Metadata();
  Object.entries(metadata).forEach(([key, value]) => headers.set(key, value));
  const deadline = timeout === null ? Infinity : Date.now() + timeout * 1000;
  const call = [path, requestSerialize, responseDeserialize];
  const how = [headers, { deadline }];
  const end = ({ code, details }) => {
    calls.delete(id);
    write({ id, code: grpc.status[code], details });
  };
  if (responseStream) {
    const stream = requestStream
      ? client.makeBidiStreamRequest(...call, ...how)
      : client.makeServerStreamRequest(...call, requests[0], ...how);
    if (requestStream) {
      requests.forEach((request) => stream.write(request));
      stream.end();
    }
    stream.on("data", (message) => write({ id, message })).on("error", () => {}).on("status", end);
    calls.set(id, stream);
  } else {
    const answer = (error, message) => {
      if (!error) write({ id, message });
      end(error ?? { code: grpc.status.OK, details: "" });
    };
    calls.set(id, client.makeUnaryRequest(...call, requests[0], ...how, answer));
  }
}

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const command = JSON.parse(line);
    if (command.cancel) calls.get(command.id)?.cancel();
    else start(command);
  })
  .on("close", () => process.exit());
