// Command gen builds the engine artefacts that backend/sandbox embeds, and copies the noise suppressor
// of backend/audio/denoise after checking its hash. It checks the engine in the
// npm package against the size and hash fixed here, instruments it, prepares the worlds that
// compile and run tools, and writes the module, their memories and a manifest. The output is
// reproducible. `make engines` runs it after `npm ci --prefix build/engines`.
//
// The files are not compressed, because unpacking them would take longer at each start than
// everything else that the sandbox does.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"helix/backend/audio/denoise"
	"helix/backend/sandbox/meter"
	"helix/backend/sandbox/prelude"
	"helix/backend/sandbox/qjs"
)

const (
	engineName    = "quickjs-ng"
	engineVersion = "0.17"
	enginePackage = "quickjs-wasi@3.6.2"
	engineSize    = 637405
	engineSHA256  = "d4c9375f2b1ca4dc95f72c8aa2982a7a9951ac8011490d79c6582df732b4bbd9"
)

func main() {
	engine := flag.String("engine", "build/engines/node_modules/quickjs-wasi/quickjs.wasm", "the engine's `file`")
	out := flag.String("out", "backend/sandbox/artefacts", "`folder` to write to")
	noise := flag.String("rnnoise", "build/engines/node_modules/@echogarden/rnnoise-wasm/rnnoise.wasm", "the noise suppressor's `file`")
	noiseOut := flag.String("rnnoise-out", "backend/audio/denoise/artefacts/rnnoise.wasm", "`file` to write it to")
	flag.Parse()
	err := pinned(*noise, *noiseOut, denoise.SHA256)
	if err == nil {
		err = run(*engine, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

// pinned copies a file that must have the given hash.
func pinned(from, to, sum string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("%w (run npm ci --prefix build/engines)", err)
	}
	if hash(b) != sum {
		return fmt.Errorf("%s is not the expected file: %d bytes, sha256 %s; want %s", from, len(b), hash(b), sum)
	}
	return write(to, b)
}

type file struct {
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
	Same   string `json:"same,omitempty"` // the file with the same content
}

func run(engine, out string) error {
	wasm, err := os.ReadFile(engine)
	if err != nil {
		return fmt.Errorf("%w (run npm ci --prefix build/engines)", err)
	}
	if len(wasm) != engineSize || hash(wasm) != engineSHA256 {
		return fmt.Errorf("%s is not the expected engine: %d bytes, sha256 %s; want %d bytes, %s",
			engine, len(wasm), hash(wasm), engineSize, engineSHA256)
	}
	source := prelude.Source()
	built, err := qjs.Build(context.Background(), wasm, source, prelude.Name)
	if err != nil {
		return err
	}
	files := map[string]file{}
	var total int
	for name, b := range map[string][]byte{"run.wasm": built.Module, "run.snap": built.Run.Snapshot, "compile.snap": built.Compile.Snapshot} {
		files[name] = file{Size: len(b), SHA256: hash(b)}
		total += len(b)
		if err := write(filepath.Join(out, name), b); err != nil {
			return err
		}
	}
	// Both worlds use the same module, so it is stored, compiled and cached once.
	files["compile.wasm"] = file{Size: len(built.Module), SHA256: hash(built.Module), Same: "run.wasm"}
	m, err := json.MarshalIndent(map[string]any{
		"format":  2,
		"engine":  map[string]string{"name": engineName, "version": engineVersion, "package": enginePackage, "sha256": engineSHA256},
		"meter":   meter.Version,
		"prelude": hash([]byte(source)),
		"files":   files,
		"run":     built.Run.Layout,
		"compile": built.Compile.Layout,
	}, "", "  ")
	if err != nil {
		return err
	}
	for _, old := range []string{"engine.wasm.gz", "prelude.bin.gz"} { // of earlier versions
		if err := os.Remove(filepath.Join(out, old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// The manifest is written last: without it the sandbox treats the folder as empty.
	if err := write(filepath.Join(out, "manifest.json"), append(m, '\n')); err != nil {
		return err
	}
	fmt.Printf("engines: %s %s, %d checks, %d bytes\n", engineName, engineVersion, built.Checks, total)
	return nil
}

// write replaces a file atomically, so that a failed build leaves no partial file.
func write(path string, b []byte) error {
	if err := os.WriteFile(path+".tmp", b, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

func hash(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
