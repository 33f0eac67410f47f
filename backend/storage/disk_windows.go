package storage

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

const isWindows = true

const (
	errNoSpace = windows.ERROR_DISK_FULL
	errQuota   = windows.ERROR_HANDLE_DISK_FULL
)

func diskSpace(path string) (space, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return space{}, err
	}
	var free, total, all uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, &total, &all); err != nil {
		return space{}, err
	}
	return space{Free: int64(free), Total: int64(total)}, nil
}

// networkFS returns "cifs" for a share or a mapped drive, "" for a local disk.
func networkFS(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	vol := filepath.VolumeName(abs)
	if len(vol) > 2 && vol[0] == '\\' && vol[1] == '\\' && vol[2] != '?' && vol[2] != '.' {
		return "cifs", nil
	}
	p, err := windows.UTF16PtrFromString(vol + `\`)
	if err != nil {
		return "", err
	}
	if windows.GetDriveType(p) == windows.DRIVE_REMOTE {
		return "cifs", nil
	}
	return "", nil
}

// allocate reserves real blocks for f.
func allocate(f *os.File, size int64) error { return writeZeros(f, size) }
