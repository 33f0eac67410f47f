package tools

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"helix/backend/fault"
	"helix/backend/identity"
)

// mayWriteFile returns an error if the caller may not write files or the path is unusable, before
// any other work is done.
func mayWriteFile(ctx context.Context, path string) error {
	if id, _ := identity.From(ctx); !id.Scopes.Has(identity.Admin) {
		return fault.Deniedf("Writing a file needs the admin scope. Leave path out and keep the answer.")
	}
	if !filepath.IsAbs(path) {
		return fault.Invalidf("Give the full path of the file to write.")
	}
	if _, err := os.Lstat(path); err == nil {
		return fault.Conflictf("A file with this name already exists. Choose another.")
	}
	return nil
}

// writeBundle writes a bundle atomically to a new file that only the user can read.
func writeBundle(path string, b Bundle) (err error) {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fault.Internalf(err, "The bundle cannot be written.")
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tools-export-*") // mode 0600
	if err != nil {
		return fault.Invalidf("The file cannot be written there.").WithCause(err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // fails after success
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fault.Unavailablef("Couldn't write the file. No partial file was left.").WithCause(err)
	}
	// Link fails if the file exists by now. Some file systems do not support links.
	if err = os.Link(f.Name(), path); err == nil {
		return nil
	} else if errors.Is(err, os.ErrExist) {
		return fault.Conflictf("A file with this name already exists. Choose another.")
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return fault.Invalidf("The file cannot be written there.").WithCause(err)
	}
	return nil
}
