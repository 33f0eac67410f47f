package gateway

import (
	"io/fs"
	"net/http"
	"path"
	"strings"

	"helix/backend/fault"
)

// serveWeb serves the web UI: static files, and index.html for the paths that the UI defines
// itself. It does not depend on the caller, so it needs no token.
func (h *handler) serveWeb(w http.ResponseWriter, r *http.Request) error {
	head := w.Header()
	head.Set("Content-Security-Policy", "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "+
		"img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self'; connect-src 'self' ws://127.0.0.1:"+h.port+" ws://localhost:"+h.port+
		"; base-uri 'none'; frame-ancestors 'none'")
	head.Set("Cross-Origin-Opener-Policy", "same-origin") // a page that opened this one loses its reference
	if h.s.o.Web == nil {
		return fault.NotFoundf("This build has no web interface.")
	}
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	if name == "" {
		name = "index.html"
	}
	if !servable(h.s.o.Web, name) {
		if path.Ext(name) != "" || strings.HasPrefix(path.Base(name), ".") {
			return fault.NotFoundf("Nothing found at this address.")
		}
		name = "index.html"
		if !servable(h.s.o.Web, name) {
			return fault.NotFoundf("The web interface is not built. Run make build.")
		}
	}
	if strings.HasPrefix(name, "assets/") {
		head.Set("Cache-Control", "public, max-age=31536000, immutable") // their names contain a hash
	} else {
		head.Set("Cache-Control", "no-cache")
	}
	http.ServeFileFS(w, r, h.s.o.Web, name)
	return errAnswered
}

// servable reports whether name is a regular file that may be served.
func servable(fsys fs.FS, name string) bool {
	if !fs.ValidPath(name) || strings.HasPrefix(path.Base(name), ".") {
		return false
	}
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}
