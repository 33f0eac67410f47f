package app

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/wailsapp/wails/v2/pkg/runtime"

	"helix/app/notices"
	"helix/backend/fault"
	"helix/backend/gateway"
)

// Bridge is the only struct that the page can call. Each exported method is callable from
// JavaScript, so it has exactly those of the desktop contract.
type Bridge struct {
	shell *shell
	pages *gateway.Bridge
}

// Open starts the session of a newly loaded page and ends the session of the previous page.
func (b *Bridge) Open() string { return b.pages.Open() }

// Send passes on one JSON-RPC frame of the session. Frames of an ended session are dropped.
func (b *Bridge) Send(session, frame string) error { return b.pages.Send(session, frame) }

// FileDialog describes a native file dialog.
type FileDialog struct {
	Title    string       `json:"title"`
	Name     string       `json:"name,omitempty"` // proposed file name, when saving
	Filters  []FileFilter `json:"filters,omitempty"`
	Multiple bool         `json:"multiple,omitempty"`
}

// FileFilter is one entry of the dialog's type list; Pattern is like "*.json;*.txt".
type FileFilter struct {
	Name    string `json:"name"`
	Pattern string `json:"pattern"`
}

// PickedFile is a file that the person chose. The page passes Token to methods that take a path; it
// is valid for ten minutes, and only for reading or writing, as chosen. In the window of a backend
// in another process, Token is the path: that backend runs on this computer as the same person, and
// the window's session has all scopes there.
type PickedFile struct {
	Path  string `json:"path"`
	Name  string `json:"name"`
	Size  int64  `json:"size"`
	Token string `json:"token"`
}

func (d FileDialog) filters() []runtime.FileFilter {
	out := []runtime.FileFilter{}
	for _, f := range d.Filters {
		out = append(out, runtime.FileFilter{DisplayName: f.Name, Pattern: f.Pattern})
	}
	return out
}

// OpenFiles shows a dialog to choose one or more files to read. If it is canceled, the list is
// empty.
func (b *Bridge) OpenFiles(o FileDialog) ([]PickedFile, error) {
	opts := runtime.OpenDialogOptions{Title: o.Title, Filters: o.filters()}
	var paths []string
	var err error
	if o.Multiple {
		paths, err = runtime.OpenMultipleFilesDialog(b.shell.ctx, opts)
	} else {
		var p string
		if p, err = runtime.OpenFileDialog(b.shell.ctx, opts); p != "" {
			paths = []string{p}
		}
	}
	out := []PickedFile{}
	for _, p := range paths {
		out = append(out, b.picked(p, false))
	}
	return out, err
}

// OpenFolder shows a dialog to choose a folder to write to. If it is canceled, the token is empty.
func (b *Bridge) OpenFolder(o FileDialog) (PickedFile, error) {
	p, err := runtime.OpenDirectoryDialog(b.shell.ctx, runtime.OpenDialogOptions{Title: o.Title, CanCreateDirectories: true})
	if err != nil || p == "" {
		return PickedFile{}, err
	}
	return b.picked(p, true), nil
}

// SaveFile shows a dialog to choose where to save. If it is canceled, the token is empty.
func (b *Bridge) SaveFile(o FileDialog) (PickedFile, error) {
	p, err := runtime.SaveFileDialog(b.shell.ctx, runtime.SaveDialogOptions{Title: o.Title, DefaultFilename: o.Name, Filters: o.filters(), CanCreateDirectories: true})
	if err != nil || p == "" {
		return PickedFile{}, err
	}
	return b.picked(p, true), nil
}

func (b *Bridge) picked(path string, write bool) PickedFile {
	f := PickedFile{Path: path, Name: filepath.Base(path)}
	if st, err := os.Stat(path); err == nil {
		f.Size = st.Size()
	}
	if be := b.shell.backend(); be != nil {
		f.Token = be.Picks.Add(be.LocalUser(), path, write)
	} else if b.shell.remote != nil {
		f.Token = path
	}
	return f
}

// Notice is a system notification.
type Notice struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Body  string `json:"body"`
	Link  string `json:"link,omitempty"` // where a click leads
	Test  bool   `json:"test,omitempty"` // shown even in quiet hours
}

// Notify shows a system notification, if the desktop has such a service and the settings allow it.
func (b *Bridge) Notify(n Notice) error {
	kind := notices.Schedule // the page reports what schedules do
	if n.Test {
		kind = notices.Test
	}
	b.shell.notices.Add(notices.Notice{Kind: kind, Title: n.Title, Body: n.Body, Link: n.Link})
	return nil
}

// Window changes the window: show, hide, minimise, toggleMaximise, reload.
func (b *Bridge) Window(action string) error {
	ctx := b.shell.ctx
	switch action {
	case "show":
		b.shell.show()
	case "hide":
		b.shell.hide()
	case "minimise":
		runtime.WindowMinimise(ctx)
	case "toggleMaximise":
		runtime.WindowToggleMaximise(ctx)
	case "reload":
		runtime.WindowReloadApp(ctx)
	default:
		return errors.New("unknown window action " + action)
	}
	return nil
}

// Ready reports that the page has been painted.
func (b *Bridge) Ready() { b.shell.pageIsReady() }

// refuse answers every call of a page with the reason why the backend did not start, until the page
// is closed.
func refuse(ctx context.Context, p gateway.Pipe, why *fault.Error) error {
	for {
		frame, err := p.Read(ctx)
		if err != nil {
			return nil // the page is closed
		}
		var call struct {
			ID json.RawMessage `json:"id"`
		}
		if json.Unmarshal(frame, &call) != nil || call.ID == nil {
			continue
		}
		answer, err := json.Marshal(map[string]any{
			"jsonrpc": "2.0", "id": call.ID,
			"error": map[string]any{
				"code": -32000, "message": why.Message,
				"data": map[string]any{"kind": fault.Unavailable, "code": "UNAVAILABLE", "details": map[string]any{"startup": true, "kind": why.Kind}, "retryable": false},
			},
		})
		if err == nil {
			err = p.Write(ctx, answer)
		}
		if err != nil {
			return err
		}
	}
}
