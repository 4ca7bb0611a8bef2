/*
 * The first call of each entry point, and a thread's first counted call, land here, with the symbol's index pushed above the
 * caller's return address. All registers that can carry arguments are kept while C++ finds out where to go on.
 */
.macro KEEPING name function
    .globl \name
    .hidden \name
    .type \name, @function
\name:
    .cfi_startproc
    .cfi_def_cfa_offset 16
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    pushq %rcx
    .cfi_adjust_cfa_offset 8
    pushq %r8
    .cfi_adjust_cfa_offset 8
    pushq %r9
    .cfi_adjust_cfa_offset 8
    pushq %rax
    .cfi_adjust_cfa_offset 8
    pushq %r10
    .cfi_adjust_cfa_offset 8
    subq $128, %rsp
    .cfi_adjust_cfa_offset 128
    movaps %xmm0, 0(%rsp)
    movaps %xmm1, 16(%rsp)
    movaps %xmm2, 32(%rsp)
    movaps %xmm3, 48(%rsp)
    movaps %xmm4, 64(%rsp)
    movaps %xmm5, 80(%rsp)
    movaps %xmm6, 96(%rsp)
    movaps %xmm7, 112(%rsp)
    movl 192(%rsp), %edi
    call \function
    movq %rax, %r11
    movaps 0(%rsp), %xmm0
    movaps 16(%rsp), %xmm1
    movaps 32(%rsp), %xmm2
    movaps 48(%rsp), %xmm3
    movaps 64(%rsp), %xmm4
    movaps 80(%rsp), %xmm5
    movaps 96(%rsp), %xmm6
    movaps 112(%rsp), %xmm7
    addq $128, %rsp
    .cfi_adjust_cfa_offset -128
    popq %r10
    .cfi_adjust_cfa_offset -8
    popq %rax
    .cfi_adjust_cfa_offset -8
    popq %r9
    .cfi_adjust_cfa_offset -8
    popq %r8
    .cfi_adjust_cfa_offset -8
    popq %rcx
    .cfi_adjust_cfa_offset -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    jmp *%r11
    .cfi_endproc
    .size \name, . - \name
.endm

    .text
    KEEPING torpor_resolve_entry torpor_resolve
    KEEPING torpor_first_count_entry torpor_first_count

/* What a call finds where there is no driver (CUDA_ERROR_NO_DEVICE), or no such function in it
   (CUDA_ERROR_NOT_SUPPORTED). */
.macro ANSWER name status
    .globl \name
    .hidden \name
    .type \name, @function
\name:
    .cfi_startproc
    endbr64
    movl $\status, %eax
    ret
    .cfi_endproc
    .size \name, . - \name
.endm
    ANSWER torpor_answer_no_device 100
    ANSWER torpor_answer_not_supported 801

    .section .note.GNU-stack, "", @progbits
