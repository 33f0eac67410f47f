// Command gen writes docs/openrpc.json, docs/protocol.md and the TypeScript types from the
// method table of the backend and the comments of its functions. With -check it writes
// nothing and fails when a file is out of date.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"helix/backend"
	"helix/backend/cloudsync"
	"helix/backend/gateway"
	"helix/backend/gateway/apigen"
	"helix/backend/storage"
)

func main() {
	check := flag.Bool("check", false, "only compare")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	a := gateway.NewAPI()
	backend.Register(&backend.Backend{}, a)
	files, missing, err := apigen.Files(a, root)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		fmt.Fprintln(os.Stderr, "gen: without a comment (give the function one, or use gateway.DocumentedBy):", strings.Join(missing, ", "))
	}
	tables, err := hubTables()
	if err != nil {
		return err
	}
	files["backend/cloudsync/hub/tables.sql"] = tables
	if check {
		return apigen.Check(files, root)
	}
	return apigen.Write(files, root)
}

// hubTables is the part of the hub's schema that follows from the tables of a new database.
func hubTables() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "helix-gen-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	ctx := context.Background()
	db, err := storage.Open(ctx, storage.Options{Path: filepath.Join(dir, "helix.db")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return cloudsync.HubTables(ctx, db)
}

// findRoot is the nearest folder upwards that holds go.mod.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		dir = up
	}
}
