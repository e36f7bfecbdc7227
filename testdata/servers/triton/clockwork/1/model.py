"""A model whose knee is known: SLOTS requests run at once, each with a token
every PERIOD seconds, and further ones wait. So X(N) = min(N, SLOTS) requests in
the time of one, and the knee is SLOTS in flight."""

import os
import sys
import threading
import time

# The interpreter that the backend starts takes no packages from the caller's.
sys.path[:0] = [p for p in os.environ.get("PYTHONPATH", "").split(":") if p]

import numpy as np
import triton_python_backend_utils as triton

SLOTS = 4
PERIOD = 0.004


class TritonPythonModel:
    def initialize(self, args):
        self.slots = threading.Semaphore(SLOTS)

    def execute(self, requests):
        # A decoupled model answers later, by the sender of each request.
        for request in requests:
            threading.Thread(target=self.generate, args=(request,), daemon=True).start()

    def generate(self, request):
        sender = request.get_response_sender()
        limit = triton.get_input_tensor_by_name(request, "max_tokens")
        count = 16 if limit is None else int(limit.as_numpy().ravel()[0])
        with self.slots:
            due = time.monotonic()
            for i in range(count):
                due += PERIOD
                time.sleep(max(0.0, due - time.monotonic()))
                if sender.is_cancelled():
                    break
                sender.send(triton.InferenceResponse([
                    triton.Tensor("text_output", np.array([b" tick"], dtype=object)),
                    triton.Tensor("token_id", np.array([i], dtype=np.int32)),
                ]))
        sender.send(flags=triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
