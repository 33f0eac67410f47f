package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"helix/backend/sandbox/linear"
	"helix/backend/sandbox/meter"
)

// native compiles to machine code. wazero reports a damaged cache entry, and a full disk, as an
// error. A second try, without the entries or with the code that is then in memory, succeeds.
func (s *modules) native(ctx context.Context, e *Engine, wasm []byte) (wazero.CompiledModule, error) {
	ctx = experimental.WithCompilationWorkers(ctx, 2)
	compiled, err := s.rt.CompileModule(ctx, wasm)
	if err == nil || ctx.Err() != nil || e.cache == nil || e.cache.c == nil {
		return compiled, err
	}
	_ = filepath.WalkDir(e.cache.folder(), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && len(d.Name()) == sha256.Size*2 {
			_ = os.Remove(p) // a file that cannot be removed is reported again below
		}
		return nil
	})
	return s.rt.CompileModule(ctx, wasm)
}

// The file of a prepared module: a checksum of everything after it, the length of the header, the
// header as JSON, the data, the WASM.
var checksums = crc32.MakeTable(crc32.Castagnoli)

// preparedPath returns where a prepared module is stored; "" without a disk cache.
func (s *modules) preparedPath(e *Engine, key [32]byte) string {
	if e.cache == nil || e.cache.c == nil || e.cache.root == "" {
		return ""
	}
	return filepath.Join(e.cache.folder(), fmt.Sprintf("%x-m%d", key, meter.Version))
}

// load reads a prepared module; a damaged file is removed.
func (s *modules) load(e *Engine, key [32]byte) *preparedModule {
	path := s.preparedPath(e, key)
	if path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	p, err := decodePrepared(b)
	if err != nil || p.Info.SHA256 != hex.EncodeToString(key[:]) {
		_ = os.Remove(path) // the next store replaces it
		return nil
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // for the sweep, which removes the least recently used
	return p
}

// store saves a prepared module; if the disk is full, it is not saved.
func (s *modules) store(e *Engine, key [32]byte, p *preparedModule) {
	path := s.preparedPath(e, key)
	if path == "" {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return
	}
	_, err = f.Write(encodePrepared(p))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

// encodePrepared returns a prepared module as bytes, which the caller must not change.
func encodePrepared(p *preparedModule) []byte {
	if p.encoded != nil {
		return p.encoded
	}
	header := jsonObject(p)
	b := make([]byte, 8, 8+len(header)+len(p.wasm))
	binary.LittleEndian.PutUint32(b[4:], uint32(len(header)))
	b = append(b, header...)
	for _, d := range p.data {
		b = append(b, d.Data...)
	}
	b = append(b, p.wasm...)
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], checksums))
	return b
}

var errDamaged = errors.New("damaged file of a prepared module")

func decodePrepared(b []byte) (*preparedModule, error) {
	if len(b) < 8 || crc32.Checksum(b[4:], checksums) != binary.LittleEndian.Uint32(b) {
		return nil, errDamaged
	}
	p := &preparedModule{encoded: b}
	n := uint64(binary.LittleEndian.Uint32(b[4:]))
	b = b[8:]
	if n > uint64(len(b)) {
		return nil, errDamaged
	}
	if err := json.Unmarshal(b[:n], p); err != nil {
		return nil, err
	}
	b = b[n:]
	end := 0
	for _, at := range p.Pages {
		if at[0] < end || at[1] <= 0 || at[1] > len(b) || (at[0]|at[1])%linear.Page != 0 || at[0] > int(p.Info.Memory)<<16-at[1] {
			return nil, errDamaged
		}
		p.data = append(p.data, linear.Chunk{At: at[0], Data: b[:at[1]:at[1]]})
		b, end = b[at[1]:], at[0]+at[1]
	}
	p.wasm = b
	return p, nil
}
