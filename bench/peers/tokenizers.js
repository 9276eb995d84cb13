// Beside the packages, so that Node finds them: the tokenizers that bench/tokenizers.ts compares with.
export { Tokenizer } from "@huggingface/tokenizers";
