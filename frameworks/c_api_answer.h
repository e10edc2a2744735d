#ifndef FARANDOLE_FRAMEWORKS_C_API_ANSWER_H_
#define FARANDOLE_FRAMEWORKS_C_API_ANSWER_H_

#include "worker/completion/result.h"

// What the functions of the C ABI return, and the sentence that goes with it.
namespace farandole::frameworks {

// Of the calling thread; valid until its next call. "" if none.
const char* LastError();
// The code; its text becomes LastError().
int Fail(const worker::completion::Result& result);
// As Fail, unless nothing failed.
int Answer(const worker::completion::Result& result);

worker::completion::Result NotInitialized();
// Every call but version and last_error begins with this. True: `*code` is what it returns.
bool InChild(int* code);

}  // namespace farandole::frameworks

#endif  // FARANDOLE_FRAMEWORKS_C_API_ANSWER_H_
