// Here, because packages are looked for beside the file that names them. `tf` is CommonJS: its names come from its default export.
export { default as tf } from "@tensorflow/tfjs";
export { default as wasm } from "@tensorflow/tfjs-backend-wasm";
export { default as webgpu } from "@tensorflow/tfjs-backend-webgpu";
