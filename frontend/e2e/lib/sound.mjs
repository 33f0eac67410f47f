// Sounds for the tests: tones by code, and speech by flite where it is installed.
import { execFile } from "node:child_process";
import { access, readFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const rate = 16_000;

/** A WAV file with tones: pairs of a frequency, 0 for silence, and a duration in ms. */
export function tones(...parts) {
  const samples = parts.flatMap(([hz, ms]) => Array.from({ length: (ms * rate) / 1000 }, (_, i) => Math.round(hz === 0 ? 0 : 12_000 * Math.sin((2 * Math.PI * hz * i) / rate))));
  const wav = Buffer.alloc(44 + samples.length * 2);
  wav.write("RIFF", 0);
  wav.writeUInt32LE(36 + samples.length * 2, 4);
  wav.write("WAVEfmt ", 8);
  wav.writeUInt32LE(16, 16);
  wav.writeUInt16LE(1, 20);
  wav.writeUInt16LE(1, 22);
  wav.writeUInt32LE(rate, 24);
  wav.writeUInt32LE(rate * 2, 28);
  wav.writeUInt16LE(2, 32);
  wav.writeUInt16LE(16, 34);
  wav.write("data", 36);
  wav.writeUInt32LE(samples.length * 2, 40);
  samples.forEach((v, i) => wav.writeInt16LE(v, 44 + i * 2));
  return wav;
}

/** A sentence as a WAV file, or null if flite is not installed. */
export async function speech(text, dir) {
  const file = path.join(dir, "speech.wav");
  try {
    await run("flite", ["-voice", "slt", "-t", text, "-o", file]);
    await access(file);
  } catch (e) {
    if (e.code === "ENOENT") return null;
    throw e;
  }
  return readFile(file);
}
