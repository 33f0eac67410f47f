package sandbox

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"

	"helix/backend/sandbox/meter"
	"helix/backend/sandbox/qjs"
)

// maxCache is the maximum size of the folder in bytes.
const maxCache = 512 << 20

// diskCache keeps compiled code between starts. Whoever can write to the folder can run machine
// code here, so a folder that others can access is not used.
type diskCache struct {
	root   string // empty: no cache
	reason string
	c      wazero.CompilationCache

	mu sync.Mutex // one sweep at a time
}

// openCache checks dir, and creates it if it does not exist.
func openCache(dir string) *diskCache {
	if dir == "" {
		return &diskCache{reason: "No cache folder is set."}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &diskCache{reason: "The cache folder cannot be made."}
	}
	if why := unsafeFolder(dir); why != "" {
		return &diskCache{reason: why}
	}
	return &diskCache{root: dir}
}

// folder returns the folder for the code of this build. Code written by other versions of Helix,
// wazero or the meter is never read.
func (d *diskCache) folder() string {
	return filepath.Join(d.root, "native", buildVersion("helix"), fmt.Sprintf("%s-m%d-%s", buildVersion("github.com/tetratelabs/wazero"), meter.Version, runtime.GOARCH))
}

// buildVersion returns the version of a module of this program, in a form that is valid as a file
// name.
func buildVersion(module string) string {
	version := "devel"
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(b.Deps, &b.Main) {
			if m.Path == module && m.Version != "" {
				version = m.Version
			}
		}
	}
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-+", r) {
			return r
		}
		return '_'
	}, version)
}

// engine creates the JavaScript engine with the cache, or without it if the cache is damaged.
func (d *diskCache) engine(ctx context.Context, wasm []byte, crosscheck bool) (*qjs.VM, error) {
	c := qjs.Config{Crosscheck: crosscheck}
	if d.root == "" {
		return qjs.New(ctx, wasm, c)
	}
	var last error
	for range 2 {
		if err := d.open(); err != nil {
			d.root, d.reason = "", "The cache folder cannot be used: "+err.Error()
			return qjs.New(ctx, wasm, c)
		}
		c.Cache = d.c
		vm, err := qjs.New(ctx, wasm, c)
		if err == nil || ctx.Err() != nil {
			return vm, err
		}
		last = err
		d.close()
		if err := os.RemoveAll(d.folder()); err != nil {
			break
		}
	}
	c.Cache = nil
	vm, err := qjs.New(ctx, wasm, c)
	if err != nil {
		return nil, err
	}
	d.root, d.reason = "", fmt.Sprintf("The cache folder cannot be used: %v.", last)
	return vm, nil
}

func (d *diskCache) open() error {
	dir := d.folder()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for p := dir; len(p) > len(d.root); p = filepath.Dir(p) {
		if why := unsafeFolder(p); why != "" {
			return fmt.Errorf("%s", why)
		}
	}
	if err := rejectForeignFiles(dir); err != nil {
		return err
	}
	c, err := wazero.NewCompilationCacheWithDir(dir)
	d.c = c
	return err
}

// rejectForeignFiles returns an error if anything below dir could have been written by another
// user, or is not a regular file or folder.
func rejectForeignFiles(dir string) error {
	return filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.IsDir() && !e.Type().IsRegular() {
			return fmt.Errorf("the cache folder holds something that is not a file")
		}
		if why := foreignOwner(p); why != "" {
			return fmt.Errorf("%s", why)
		}
		return nil
	})
}

func (d *diskCache) close() error {
	if d == nil || d.c == nil {
		return nil
	}
	c := d.c
	d.c = nil
	return c.Close(context.Background())
}

type cached struct {
	path string
	size int64
	used time.Time
}

func (d *diskCache) list() (files []cached, total int64) {
	if d == nil || d.root == "" {
		return nil, 0
	}
	_ = filepath.WalkDir(filepath.Join(d.root, "native"), func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // gone meanwhile, or not accessible
		}
		if i, err := e.Info(); err == nil {
			files = append(files, cached{p, i.Size(), lastUse(p, i)})
			total += i.Size()
		}
		return nil
	})
	return files, total
}

// sweep removes the oldest entries until the folder is not larger than maxCache.
func (d *diskCache) sweep() {
	if d == nil || d.root == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	files, total := d.list()
	slices.SortFunc(files, func(a, b cached) int { return a.used.Compare(b.used) })
	for _, f := range files {
		if total <= maxCache {
			return
		}
		if os.Remove(f.path) == nil {
			total -= f.size
		}
	}
}

func (d *diskCache) status() CacheStatus {
	if d == nil {
		return CacheStatus{Reason: "The engine is not available."}
	}
	files, total := d.list()
	return CacheStatus{Bytes: total, Modules: len(files), Reason: d.reason}
}
