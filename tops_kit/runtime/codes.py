"""The vendor's error numbers, their names and what they say."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """A number that a runtime call gives; `name` is the vendor's name, `text` what it means."""

    topsSuccess = 0
    topsErrorInvalidValue = 1
    topsErrorOutOfMemory = 2
    topsErrorNotInitialized = 3
    topsErrorDeinitialized = 4
    topsErrorProfilerDisabled = 5
    topsErrorProfilerNotInitialized = 6
    topsErrorProfilerAlreadyStarted = 7
    topsErrorProfilerAlreadyStopped = 8
    topsErrorInvalidConfiguration = 9
    topsErrorInvalidSymbol = 13
    topsErrorInvalidDevicePointer = 17
    topsErrorInvalidMemcpyDirection = 21
    topsErrorInvalidDeviceFunction = 98
    topsErrorNoDevice = 100
    topsErrorInvalidDevice = 101
    topsErrorInvalidImage = 200
    topsErrorInvalidContext = 201
    topsErrorNoBinaryForGpu = 209
    topsErrorPeerAccessUnsupported = 217
    topsErrorFileNotFound = 301
    topsErrorInvalidHandle = 400
    topsErrorIllegalState = 401
    topsErrorNotFound = 500
    topsErrorNotReady = 600
    topsErrorIllegalAddress = 700
    topsErrorLaunchOutOfResources = 701
    topsErrorLaunchTimeOut = 702
    topsErrorPeerAccessAlreadyEnabled = 704
    topsErrorPeerAccessNotEnabled = 705
    topsErrorContextIsDestroyed = 709
    topsErrorAssert = 710
    topsErrorHostMemoryAlreadyRegistered = 712
    topsErrorHostMemoryNotRegistered = 713
    topsErrorLaunchFailure = 719
    topsErrorCooperativeLaunchTooLarge = 720
    topsErrorNotPermitted = 800
    topsErrorNotSupported = 801
    topsErrorStreamCaptureUnsupported = 900
    topsErrorStreamCaptureInvalidated = 901
    topsErrorStreamCaptureMerge = 902
    topsErrorStreamCaptureUnmatched = 903
    topsErrorStreamCaptureUnjoined = 904
    topsErrorStreamCaptureIsolation = 905
    topsErrorStreamCaptureImplicit = 906
    topsErrorCapturedEvent = 907
    topsErrorStreamCaptureWrongThread = 908
    topsErrorGraphExecUpdateFailure = 910
    topsErrorUnknown = 999

    @property
    def text(self) -> str:
        """What it means, in a few words."""
        return _TEXTS[self]


_TEXTS = {
    Code.topsSuccess: "no error",
    Code.topsErrorInvalidValue: "an argument is not valid",
    Code.topsErrorOutOfMemory: "the device has not that much memory left",
    Code.topsErrorNotInitialized: "the runtime is not initialised",
    Code.topsErrorDeinitialized: "the process is ending",
    Code.topsErrorProfilerDisabled: "no profiler is attached",
    Code.topsErrorProfilerNotInitialized: "the profiler is not initialised",
    Code.topsErrorProfilerAlreadyStarted: "the profiler runs already",
    Code.topsErrorProfilerAlreadyStopped: "the profiler is stopped already",
    Code.topsErrorInvalidConfiguration: "the device can't run a launch of this shape",
    Code.topsErrorInvalidSymbol: "no such symbol",
    Code.topsErrorInvalidDevicePointer: "no memory of a device, or none any more",
    Code.topsErrorInvalidMemcpyDirection: "a copy can't go this way",
    Code.topsErrorInvalidDeviceFunction: "no such function",
    Code.topsErrorNoDevice: "there is no device",
    Code.topsErrorInvalidDevice: "no such device",
    Code.topsErrorInvalidImage: "no program that the device can load",
    Code.topsErrorInvalidContext: "the context is gone",
    Code.topsErrorNoBinaryForGpu: "compiled for another part",
    Code.topsErrorPeerAccessUnsupported: "the devices don't see each other's memory",
    Code.topsErrorFileNotFound: "no such file",
    Code.topsErrorInvalidHandle: "a handle of nothing that exists",
    Code.topsErrorIllegalState: "not in this state",
    Code.topsErrorNotFound: "no such name",
    Code.topsErrorNotReady: "not done yet",
    Code.topsErrorIllegalAddress: "an access to memory that is not there",
    Code.topsErrorLaunchOutOfResources: "the launch needs more than there is",
    Code.topsErrorLaunchTimeOut: "the kernel took too long",
    Code.topsErrorPeerAccessAlreadyEnabled: "peer access is enabled already",
    Code.topsErrorPeerAccessNotEnabled: "peer access is not enabled",
    Code.topsErrorContextIsDestroyed: "the context was destroyed",
    Code.topsErrorAssert: "an assertion in a kernel failed",
    Code.topsErrorHostMemoryAlreadyRegistered: "the host memory is registered already",
    Code.topsErrorHostMemoryNotRegistered: "the host memory is not registered",
    Code.topsErrorLaunchFailure: "a kernel failed",
    Code.topsErrorCooperativeLaunchTooLarge: "more blocks than the device holds at once",
    Code.topsErrorNotPermitted: "not permitted here",
    Code.topsErrorNotSupported: "not supported",
    Code.topsErrorStreamCaptureUnsupported: "not possible while a stream is captured",
    Code.topsErrorStreamCaptureInvalidated: "the capture was made invalid by an earlier error",
    Code.topsErrorStreamCaptureMerge: "would join two captures",
    Code.topsErrorStreamCaptureUnmatched: "the capture was begun on another stream",
    Code.topsErrorStreamCaptureUnjoined: "a stream was forked and not joined again",
    Code.topsErrorStreamCaptureIsolation: "depends on work outside of the capture",
    Code.topsErrorStreamCaptureImplicit: "the default stream would wait for a captured one",
    Code.topsErrorCapturedEvent: "the event was recorded in a capture",
    Code.topsErrorStreamCaptureWrongThread: "the capture belongs to another thread",
    Code.topsErrorGraphExecUpdateFailure: "the graph has another shape",
    Code.topsErrorUnknown: "an unknown error",
}
