// This file is here because packages are looked for beside the file that imports them. `tf` is CommonJS, so its names
// come from its default export.
export { default as tf } from "@tensorflow/tfjs";
export { default as wasm } from "@tensorflow/tfjs-backend-wasm";
export { default as webgpu } from "@tensorflow/tfjs-backend-webgpu";
