// This file is here because Node looks for packages beside the file that imports them. tfjs is CommonJS, so its names
// come from its default export.
export { default as tf } from "@tensorflow/tfjs";
export { default as wasm } from "@tensorflow/tfjs-backend-wasm";
export { default as webgpu } from "@tensorflow/tfjs-backend-webgpu";
