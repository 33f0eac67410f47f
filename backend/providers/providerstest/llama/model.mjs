// Writes a llama model with random weights and an alphabet of bytes as GGUF, so that a real engine has
// something to run without anybody's weights. It answers nonsense.
import fs from 'node:fs'

const width = 64, layers = 2, heads = 4, inner = 128, context = 16384
const [STRING, U32, F32, I32, ARRAY] = [8, 4, 6, 5, 9] // types of metadata
const [NORMAL, UNKNOWN, CONTROL, BYTE] = [1, 2, 3, 6] // types of tokens

const u32 = (n) => { const b = Buffer.alloc(4); b.writeUInt32LE(n); return b }
const u64 = (n) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(n)); return b }
const i32 = (n) => { const b = Buffer.alloc(4); b.writeInt32LE(n); return b }
const f32 = (n) => { const b = Buffer.alloc(4); b.writeFloatLE(n); return b }
const string = (s) => { const b = Buffer.from(s); return Buffer.concat([u64(b.length), b]) }
const padded = (b) => Buffer.concat([b, Buffer.alloc((32 - (b.length % 32)) % 32)])

/** @param {string} file where to write @param {number} seed of the weights */
export function writeModel(file, seed) {
  const tokens = ['<unk>', '<s>', '</s>'], types = [UNKNOWN, CONTROL, CONTROL]
  for (let i = 0; i < 256; i++) {
    tokens.push('<0x' + i.toString(16).toUpperCase().padStart(2, '0') + '>')
    types.push(BYTE)
  }
  for (let i = 32; i < 127; i++) {
    tokens.push(i === 32 ? '\u2581' : String.fromCharCode(i))
    types.push(NORMAL)
  }
  const metadata = []
  const put = (key, type, value) => metadata.push(Buffer.concat([string(key), u32(type), value]))
  const list = (type, values, encode) => Buffer.concat([u32(type), u64(values.length), ...values.map(encode)])
  put('general.architecture', STRING, string('llama'))
  put('general.name', STRING, string('random'))
  for (const [key, n] of Object.entries({
    'context_length': context, 'embedding_length': width, 'block_count': layers, 'feed_forward_length': inner,
    'attention.head_count': heads, 'attention.head_count_kv': heads, 'rope.dimension_count': width / heads, 'vocab_size': tokens.length,
  })) put('llama.' + key, U32, u32(n))
  put('llama.attention.layer_norm_rms_epsilon', F32, f32(1e-5))
  put('general.file_type', U32, u32(0))
  put('tokenizer.ggml.model', STRING, string('llama'))
  put('tokenizer.ggml.tokens', ARRAY, list(STRING, tokens, string))
  put('tokenizer.ggml.scores', ARRAY, list(F32, tokens.map((_, i) => -i), f32))
  put('tokenizer.ggml.token_type', ARRAY, list(I32, types, i32))
  put('tokenizer.ggml.bos_token_id', U32, u32(1))
  put('tokenizer.ggml.eos_token_id', U32, u32(2))
  put('tokenizer.ggml.unknown_token_id', U32, u32(0))

  const random = () => { seed = (seed * 1664525 + 1013904223) >>> 0; return (seed / 2 ** 32 - 0.5) * 0.2 }
  const tensors = []
  const add = (name, shape, value = random) => {
    const values = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, value)
    tensors.push({ name, shape, data: padded(Buffer.from(values.buffer)) })
  }
  const one = () => 1
  add('token_embd.weight', [width, tokens.length])
  for (let layer = 0; layer < layers; layer++) {
    const at = `blk.${layer}.`
    add(at + 'attn_norm.weight', [width], one)
    for (const part of ['attn_q', 'attn_k', 'attn_v', 'attn_output']) add(`${at}${part}.weight`, [width, width])
    add(at + 'ffn_norm.weight', [width], one)
    add(at + 'ffn_gate.weight', [width, inner])
    add(at + 'ffn_up.weight', [width, inner])
    add(at + 'ffn_down.weight', [inner, width])
  }
  add('output_norm.weight', [width], one)
  add('output.weight', [width, tokens.length])

  const head = [Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(metadata.length), ...metadata]
  let offset = 0
  for (const t of tensors) {
    head.push(string(t.name), u32(t.shape.length), ...t.shape.map(u64), u32(0), u64(offset))
    offset += t.data.length
  }
  fs.writeFileSync(file, Buffer.concat([padded(Buffer.concat(head)), ...tensors.map((t) => t.data)]))
}
