package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/memory"
	"helix/backend/storage"
)

type memoryExportCmd struct {
	Format string `default:"jsonl" enum:"jsonl,markdown" help:"JSON lines or Markdown (${enum})."`
	Output string `short:"o" type:"path" help:"Default: standard output."`
	memoryFilterFlags
}

func (e *memoryExportCmd) Run(c *command) (err error) {
	p := map[string]any{"format": e.Format}
	filters, err := e.filters()
	if err != nil {
		return err
	}
	if len(filters) > 0 {
		p["filters"] = filters
	}
	var r memory.ExportResult
	raw, err := c.call("memory.export", p, &r)
	if err != nil {
		return err
	}
	if c.JSON && e.Output == "" {
		return c.printJSON(raw)
	}
	if err := c.saveBlob(r.BlobID, e.Output); err != nil || e.Output == "" {
		return err
	}
	if c.JSON {
		return c.printJSON(raw)
	}
	c.say("%d items, %s.", r.Items, size(r.Size))
	return nil
}

// saveFile writes a file completely or not at all: the existing file is kept until the new one is
// complete. If path is not a regular file, such as a pipe, it is written directly.
func saveFile(path string, from io.Reader) (err error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	unwritable := func(err error) error { return fault.Invalidf("Couldn't write %s.", path).WithCause(err) }
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		to, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return unwritable(err)
		}
		_, err = io.Copy(to, from)
		return errors.Join(err, to.Close())
	}
	to, err := os.CreateTemp(filepath.Dir(path), ".helix-export-*") // created with mode 0600
	if err != nil {
		return unwritable(err)
	}
	defer func() {
		if err != nil {
			to.Close()
			os.Remove(to.Name())
		}
	}()
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	if err := os.Rename(to.Name(), path); err != nil {
		return unwritable(err)
	}
	return nil
}

// blob opens a stored file: in the folder of our own backend, or with a URL signed by the running
// one.
func (c *command) blob(id string) (io.ReadCloser, error) {
	if o, ok := c.conn.(*own); ok {
		sum, err := hex.DecodeString(id)
		if err != nil || len(sum) != 32 {
			return nil, fault.Internalf(err, "The export has no file.")
		}
		return o.be.DB.Blobs().Open(storage.Ref{SHA256: [32]byte(sum)})
	}
	var u gateway.BlobURL
	if _, err := c.call("blobs.url", map[string]any{"sha256": id}, &u); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(c.ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.URL, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy: it is this computer
	resp, err := client.Do(req)
	if err != nil {
		cancel()
		return nil, fault.Unavailablef("Helix does not answer.").WithCause(err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		cancel()
		return nil, fault.NotFoundf("The export no longer exists.")
	}
	return download{resp.Body, cancel}, nil
}

// download cancels its request when it is closed.
type download struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (d download) Close() error {
	defer d.cancel()
	return d.ReadCloser.Close()
}

// saveBlob saves a file of the backend at a path, or writes it to standard output.
func (c *command) saveBlob(blob, output string) error {
	from, err := c.blob(blob)
	if err != nil {
		return err
	}
	defer from.Close() // read only
	if output == "" {
		_, err := io.Copy(c.env.Stdout, from)
		return err
	}
	return saveFile(output, from)
}
