// Command gen builds the engine artefacts that backend/sandbox embeds: it checks the npm
// package's engine against the size and hash fixed here, compiles the prelude to bytecode
// with it, and writes everything compressed beside a manifest. Two runs write the same
// bytes. `make engines` runs it after `npm ci --prefix build/engines`.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

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
	flag.Parse()
	if err := run(*engine, *out); err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

type file struct {
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
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
	code, err := compile(wasm, prelude.Source())
	if err != nil {
		return fmt.Errorf("compile the prelude: %w", err)
	}
	files := map[string]file{}
	for name, b := range map[string][]byte{"engine.wasm": wasm, "prelude.bin": code} {
		files[name] = file{len(b), hash(b)}
		packed, err := pack(b)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(out, name+".gz"), packed); err != nil {
			return err
		}
	}
	m, err := json.MarshalIndent(map[string]any{
		"format":  1,
		"engine":  map[string]string{"name": engineName, "version": engineVersion, "package": enginePackage},
		"prelude": hash([]byte(prelude.Source())),
		"files":   files,
	}, "", "  ")
	if err != nil {
		return err
	}
	// The manifest comes last: without it the sandbox takes the folder as empty.
	if err := write(filepath.Join(out, "manifest.json"), append(m, '\n')); err != nil {
		return err
	}
	fmt.Printf("engines: %s %s, prelude %d bytes of bytecode\n", engineName, engineVersion, len(code))
	return nil
}

func compile(wasm []byte, source string) ([]byte, error) {
	ctx := context.Background()
	vm, err := qjs.New(ctx, wasm, nil)
	if err != nil {
		return nil, err
	}
	defer vm.Close()
	in, err := vm.Instantiate(ctx, qjs.Options{Eval: true, Clock: func() int64 { return 0 }, Rand: zeros{}})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return in.Compile(source, prelude.Name, false)
}

// zeros is the fixed randomness of a build.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func pack(b []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	err = z.Close()
	return out.Bytes(), err
}

// write replaces a file in one step, so that a broken build leaves no half file.
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
