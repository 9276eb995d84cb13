// Here, because packages are looked for beside the file that names them.
export * from "@jax-js/jax";
