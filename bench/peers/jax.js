// This file is here because Node looks for packages beside the file that imports them.
export * from "@jax-js/jax";
