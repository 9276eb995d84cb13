// The peer of bench/tokenizers.ts; here because Node looks for packages beside the file that imports them.
export { Tokenizer } from "@huggingface/tokenizers";
