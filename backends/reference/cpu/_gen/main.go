// Command gen writes the vector kernels of package cpu, for AVX2 with FMA and
// for AVX-512:
//
//	go run . -out ../kernels_amd64.s -stubs ../stubs_amd64.go -pkg cpu
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// lanes is the largest number of vectors that a product multiplies at a time.
const lanes = 8

func main() {
	for _, u := range []unit{
		// Its sums, a register a row of weights and an element of the vectors
		// have to fit sixteen registers, or thirty-two; at least four sums hide
		// the latency of an addition.
		{name: "AVX2", width: 8, register: YMM, block: [lanes + 1]int{1: 4, 2: 4, 3: 3, 4: 2, 5: 2, 6: 2, 7: 1, 8: 1}},
		{name: "AVX512", width: 16, register: ZMM, block: [lanes + 1]int{1: 4, 2: 4, 3: 4, 4: 4, 5: 4, 6: 3, 7: 3, 8: 2}},
	} {
		for n := 1; n <= lanes; n++ {
			product(u, weights{name: "F32", goType: "float32", shift: 2, load: func(m Mem, v VecVirtual) { VMOVUPS(m, v) }}, n)
		}
		for n := 1; n <= lanes; n++ {
			// A bfloat16 is the upper half of a float32.
			product(u, weights{name: "BF16", goType: "uint16", shift: 1, load: func(m Mem, v VecVirtual) {
				VPMOVZXWD(m, v)
				VPSLLD(Imm(16), v, v)
			}}, n)
		}
	}
	sumRows()
	Generate()
}

// unit is a vector unit.
type unit struct {
	name     string
	width    int // float32 elements a register
	register func() VecVirtual
	// block is the number of rows that a product with so many vectors takes at
	// a time.
	block [lanes + 1]int
}

// weights is how a kernel reads its matrix.
type weights struct {
	name, goType string
	shift        uint64 // bytes an element, as a shift
	load         func(Mem, VecVirtual)
}

// product writes mul<weights>x<n><unit>.
func product(u unit, t weights, n int) {
	name := fmt.Sprintf("mul%sx%d%s", t.name, n, u.name)
	TEXT(name, NOSPLIT, fmt.Sprintf("func(y *float32, yStride int, w *%s, x *float32, stride, cols, rows int)", t.goType))
	Pragma("noescape")
	Doc(fmt.Sprintf("%s adds to y[v*yStride+r] the product of row r of w with vector v of x,", name),
		fmt.Sprintf("vectors 0 to %d, over cols elements, a multiple of %d. Rows and vectors lie stride", n-1, u.width),
		"elements apart.")
	k := kernel{unit: u, weights: t, n: n}
	k.y = Load(Param("y"), GP64())
	k.yBytes = Load(Param("yStride"), GP64())
	SHLQ(Imm(2), k.yBytes)
	k.w = Load(Param("w"), GP64())
	k.wBytes = Load(Param("stride"), GP64())
	SHLQ(Imm(t.shift), k.wBytes)
	k.xBytes = Load(Param("stride"), GP64())
	SHLQ(Imm(2), k.xBytes)
	left := Load(Param("rows"), GP64())
	if rows := u.block[n]; rows > 1 {
		Label("block")
		CMPQ(left, Imm(uint64(rows)))
		JL(LabelRef("row"))
		k.emit("block", rows)
		SUBQ(Imm(uint64(rows)), left)
		JMP(LabelRef("block"))
	}
	Label("row")
	TESTQ(left, left)
	JZ(LabelRef("end"))
	k.emit("row", 1)
	DECQ(left)
	JMP(LabelRef("row"))
	Label("end")
	VZEROUPPER()
	RET()
}

// kernel holds the registers of a product. y and w move on with the rows.
type kernel struct {
	unit
	weights
	n                      int
	y, w                   Register
	yBytes, wBytes, xBytes Register
}

// emit multiplies rows rows of w with all vectors, adds the sums to y and moves
// y and w on.
func (k kernel) emit(label string, rows int) {
	sums := make([][]VecVirtual, rows)
	for r := range sums {
		for range k.n {
			s := k.register()
			k.clear(s)
			sums[r] = append(sums[r], s)
		}
	}
	xs := newCursors(Load(Param("x"), GP64()), k.xBytes, k.n)
	first := GP64()
	MOVQ(k.w, first)
	ws := newCursors(first, k.wBytes, rows)
	count := Load(Param("cols"), GP64())
	Label(label + "Loop")
	row := make([]VecVirtual, rows)
	for r := range row {
		row[r] = k.register()
		k.load(ws.at(r), row[r])
	}
	if rows == 1 {
		for v := range k.n {
			VFMADD231PS(xs.at(v), row[0], sums[0][v])
		}
	} else {
		x := k.register()
		for v := range k.n {
			VMOVUPS(xs.at(v), x)
			for r := range row {
				VFMADD231PS(x, row[r], sums[r][v])
			}
		}
	}
	xs.advance(uint64(k.width) << 2)
	ws.advance(uint64(k.width) << k.shift)
	SUBQ(Imm(uint64(k.width)), count)
	JNZ(LabelRef(label + "Loop"))

	out := GP64()
	MOVQ(k.y, out)
	for v := range k.n {
		for r := range rows {
			at := Mem{Base: out, Disp: 4 * r}
			sum := k.across(sums[r][v])
			VADDSS(at, sum, sum)
			VMOVSS(sum, at)
		}
		if v < k.n-1 {
			ADDQ(k.yBytes, out)
		}
	}
	ADDQ(Imm(uint64(4*rows)), k.y)
	for range rows {
		ADDQ(k.wBytes, k.w)
	}
}

func (k kernel) clear(v VecVirtual) {
	if k.width == 16 {
		VPXORD(v, v, v)
		return
	}
	VXORPS(v, v, v)
}

// across adds the parts of a sum, halving it until one is left. For AVX-512
// only instructions that reach all thirty-two registers will do.
func (k kernel) across(sum VecVirtual) Register {
	quarter := XMM()
	if k.width == 16 {
		half := YMM()
		VEXTRACTF64X4(Imm(1), sum, half)
		VADDPS(half, sum.AsY(), half)
		VEXTRACTF32X4(Imm(1), half, quarter)
		VADDPS(half.AsX(), quarter, quarter)
	} else {
		VEXTRACTF128(Imm(1), sum, quarter)
		VADDPS(sum.AsX(), quarter, quarter)
	}
	swapped := XMM()
	for _, order := range []uint64{0b01_00_11_10, 0b10_11_00_01} {
		VPERMILPS(Imm(order), quarter, swapped)
		VADDPS(swapped, quarter, quarter)
	}
	return quarter
}

// cursors address n rows that lie step bytes apart, with one register for
// every three of them.
type cursors struct {
	base []Register
	step Register
}

func newCursors(first, step Register, n int) cursors {
	c := cursors{base: []Register{first}, step: step}
	for len(c.base)*3 < n {
		next := GP64()
		last := c.base[len(c.base)-1]
		LEAQ(Mem{Base: last, Index: step, Scale: 2}, next)
		ADDQ(step, next)
		c.base = append(c.base, next)
	}
	return c
}

func (c cursors) at(i int) Mem {
	m := Mem{Base: c.base[i/3]}
	if i%3 > 0 {
		m.Index, m.Scale = c.step, uint8(i%3)
	}
	return m
}

func (c cursors) advance(bytes uint64) {
	for _, b := range c.base {
		ADDQ(Imm(bytes), b)
	}
}

// sumRows writes sumRowsAVX2.
func sumRows() {
	TEXT("sumRowsAVX2", NOSPLIT, "func(sum, rows, p *float32, dim, n int)")
	Pragma("noescape")
	Doc("sumRowsAVX2 adds p[i] times row i of rows to sum, for n rows, at least 1, of dim", "elements, a multiple of 8.")
	sum := Load(Param("sum"), GP64())
	column := Load(Param("rows"), GP64())
	left := Load(Param("dim"), GP64())
	step := GP64()
	MOVQ(left, step)
	SHLQ(Imm(2), step)
	for _, strip := range []int{4, 1} {
		label := fmt.Sprintf("strip%d", strip)
		Label(label)
		CMPQ(left, Imm(uint64(8*strip)))
		JL(LabelRef(label + "End"))
		sums := make([]VecVirtual, strip)
		for i := range sums {
			sums[i] = YMM()
			VMOVUPS(Mem{Base: sum, Disp: 32 * i}, sums[i])
		}
		at := GP64()
		MOVQ(column, at)
		p := Load(Param("p"), GP64())
		n := Load(Param("n"), GP64())
		Label(label + "Loop")
		f := YMM()
		VBROADCASTSS(Mem{Base: p}, f)
		for i := range sums {
			VFMADD231PS(Mem{Base: at, Disp: 32 * i}, f, sums[i])
		}
		ADDQ(Imm(4), p)
		ADDQ(step, at)
		DECQ(n)
		JNZ(LabelRef(label + "Loop"))
		for i := range sums {
			VMOVUPS(sums[i], Mem{Base: sum, Disp: 32 * i})
		}
		ADDQ(Imm(uint64(32*strip)), sum)
		ADDQ(Imm(uint64(32*strip)), column)
		SUBQ(Imm(uint64(8*strip)), left)
		JMP(LabelRef(label))
		Label(label + "End")
	}
	VZEROUPPER()
	RET()
}
