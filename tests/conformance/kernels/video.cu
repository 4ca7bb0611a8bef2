// Words as vectors of bytes or halves, as the video instructions have them.
#define VIDEO(n, op) asm(op " %0, %1, %2, %3;" : "=r"(q) : "r"(a[i]), "r"(b[i]), "r"(c[i])); r[n] = q;
//! per=8
KERNEL bytes(u32* o, const u32* a, const u32* b, const u32* c) {
  const u32 i = index(); u32 q; u32* r = o + 8 * i;
  VIDEO(0, "vabsdiff4.u32.u32.u32") VIDEO(1, "vabsdiff4.u32.u32.u32.add") VIDEO(2, "vabsdiff4.s32.s32.s32.sat")
  VIDEO(3, "vadd4.u32.u32.u32") VIDEO(4, "vadd4.s32.s32.s32.sat") VIDEO(5, "vsub4.u32.u32.u32.sat")
  VIDEO(6, "vmin4.s32.s32.s32") VIDEO(7, "vmax4.u32.u32.u32.add")
}
//! per=8
KERNEL halves(u32* o, const u32* a, const u32* b, const u32* c) {
  const u32 i = index(); u32 q; u32* r = o + 8 * i;
  VIDEO(0, "vabsdiff2.u32.u32.u32") VIDEO(1, "vabsdiff2.s32.s32.s32.add") VIDEO(2, "vadd2.s32.u32.s32.sat")
  VIDEO(3, "vadd2.u32.u32.u32") VIDEO(4, "vsub2.s32.s32.s32.sat") VIDEO(5, "vavrg2.s32.s32.s32")
  VIDEO(6, "vmin2.u32.u32.u32") VIDEO(7, "vmax2.s32.s32.s32")
}
//! per=4
KERNEL averages(u32* o, const u32* a, const u32* b, const u32* c) {
  const u32 i = index(); u32 q; u32* r = o + 4 * i;
  VIDEO(0, "vavrg4.u32.u32.u32") VIDEO(1, "vavrg4.s32.s32.s32") VIDEO(2, "vavrg2.u32.u32.u32") VIDEO(3, "vsub4.s32.u32.u32")
}
//! per=4
KERNEL mixed_signs(u32* o, const u32* a, const u32* b, const u32* c) {
  const u32 i = index(); u32 q; u32* r = o + 4 * i;
  VIDEO(0, "vabsdiff4.u32.s32.s32") VIDEO(1, "vadd4.u32.s32.u32.sat") VIDEO(2, "vsub2.u32.s32.u32") VIDEO(3, "vsub4.s32.u32.u32.add")
}
