package storage

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// fuseKind returns the type of the FUSE file system that holds path, from the mount table, if it is
// one that uses a network.
func fuseKind(path string) string {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return ""
	}
	defer f.Close()
	if p, err := filepath.EvalSymlinks(path); err == nil {
		path = p
	}
	best, kind := -1, ""
	for sc := bufio.NewScanner(f); sc.Scan(); {
		p := strings.Fields(sc.Text())
		if len(p) < 3 {
			continue
		}
		dir := strings.ReplaceAll(p[1], `\040`, " ")
		if len(dir) > best && (path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")) {
			best, kind = len(dir), p[2]
		}
	}
	switch kind {
	case "fuse.sshfs", "fuse.davfs", "fuse.davfs2", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs", "fuse.ceph":
		return kind
	}
	return ""
}
