package tray

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"math"
	"runtime"
)

// iconSize is the edge of the icon in pixels; panels scale it down.
const iconSize = 32

// iconInk is the accent of the light theme, which is visible on light and dark panels.
var iconInk = color.NRGBA{0x37, 0x55, 0xc6, 0xff}

// Icon returns the icon of look in the format of this system: ICO on Windows, otherwise PNG; on
// macOS a template, whose color the system chooses.
func Icon(look Look) []byte {
	ink := iconInk
	if runtime.GOOS == "darwin" {
		ink = color.NRGBA{A: 0xff}
	}
	img := draw(look, ink)
	if runtime.GOOS == "windows" {
		return ico(img)
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		return nil // a buffer and this image cannot fail
	}
	return out.Bytes()
}

// draw paints a rounded square with the letter H cut out. The state is a badge in the lower right
// corner that differs in shape, because color alone is not visible to everyone: a disc while
// listening, three bars while working, a triangle after an error.
func draw(look Look, ink color.NRGBA) *image.NRGBA {
	const samples = 4 // a side: edges are smoothed by averaging 16 points a pixel
	img := image.NewNRGBA(image.Rect(0, 0, iconSize, iconSize))
	for y := range iconSize {
		for x := range iconSize {
			hits := 0
			for sy := range samples {
				for sx := range samples {
					px := float64(x) + (float64(sx)+0.5)/samples
					py := float64(y) + (float64(sy)+0.5)/samples
					if inked(look, px, py) {
						hits++
					}
				}
			}
			c := ink
			c.A = uint8(int(ink.A) * hits / (samples * samples))
			img.SetNRGBA(x, y, c)
		}
	}
	return img
}

func inked(look Look, x, y float64) bool {
	if look != Idle && x > 16 && y > 16 {
		return badge(look, x, y)
	}
	const edge, radius = 2, 7
	dx := math.Max(0, math.Max(edge+radius-x, x-(iconSize-edge-radius)))
	dy := math.Max(0, math.Max(edge+radius-y, y-(iconSize-edge-radius)))
	if math.Hypot(dx, dy) > radius {
		return false
	}
	bar := (x >= 9 && x <= 13 || x >= 19 && x <= 23) && y >= 8 && y <= 24
	cross := x >= 9 && x <= 23 && y >= 14 && y <= 18
	return !bar && !cross
}

func badge(look Look, x, y float64) bool {
	switch look {
	case Listening:
		return math.Hypot(x-24.5, y-24.5) <= 6
	case Processing:
		return y >= 19 && y <= 30 && (x >= 18 && x <= 21 || x >= 23 && x <= 26 || x >= 28 && x <= 31)
	default:
		return y >= 18 && y <= 31 && math.Abs(x-24.5) <= (y-18)/2
	}
}

// ico wraps img in the Windows icon format, as one 32-bit bitmap.
func ico(img *image.NRGBA) []byte {
	const header, dib = 6 + 16, 40
	pixels := iconSize * iconSize * 4
	mask := iconSize * iconSize / 8
	var out bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			_ = binary.Write(&out, binary.LittleEndian, v) // a buffer cannot fail
		}
	}
	put(uint16(0), uint16(1), uint16(1))
	put(uint8(iconSize), uint8(iconSize), uint8(0), uint8(0), uint16(1), uint16(32), uint32(dib+pixels+mask), uint32(header))
	put(uint32(dib), int32(iconSize), int32(2*iconSize), uint16(1), uint16(32), uint32(0), uint32(pixels), [4]uint32{})
	for y := iconSize - 1; y >= 0; y-- {
		for x := range iconSize {
			c := img.NRGBAAt(x, y)
			put([4]byte{c.B, c.G, c.R, c.A})
		}
	}
	out.Write(make([]byte, mask))
	return out.Bytes()
}
