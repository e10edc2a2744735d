// One run of a kernel against stand-ins of TensorFlow and of the core.
#include "frameworks/tensorflow/work.h"

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::frameworks::tensorflow {

struct TF_Tensor {
  int dtype = kTfFloat;
  std::vector<int64_t> shape;
  std::vector<char> bytes;
  int owners = 1;
};

struct TF_Status {
  int code = kTfOk;
  std::string text;
};

struct TF_OpKernelContext {
  std::vector<TF_Tensor*> inputs;
  std::map<int, TF_Tensor*> outputs;
  int code = kTfOk;
  std::string text;
};

namespace {

int live_tensors = 0;
int live_statuses = 0;
bool allocates = true;

TF_Tensor* NewTensor(int dtype, const int64_t* shape, int ndim, size_t bytes) {
  ++live_tensors;
  return new TF_Tensor{dtype, std::vector<int64_t>(shape, shape + ndim), std::vector<char>(bytes)};
}

void Drop(TF_Tensor* tensor) {
  if (--tensor->owners > 0) return;
  --live_tensors;
  delete tensor;
}

TfApi FakeApi() {
  TfApi api;
  api.TF_NewStatus = [] { return ++live_statuses, new TF_Status; };
  api.TF_DeleteStatus = [](TF_Status* status) {
    --live_statuses;
    delete status;
  };
  api.TF_SetStatus = [](TF_Status* status, int code, const char* text) { *status = {code, text}; };
  api.TF_GetCode = [](const TF_Status* status) { return status->code; };
  api.TF_NumInputs = [](TF_OpKernelContext* context) { return static_cast<int>(context->inputs.size()); };
  api.TF_GetInput = [](TF_OpKernelContext* context, int i, TF_Tensor** tensor, TF_Status*) {
    *tensor = context->inputs[i];
    ++(*tensor)->owners;
  };
  api.TF_AllocateTensor = NewTensor;
  api.TF_AllocateOutput = [](TF_OpKernelContext* context, int i, int dtype, const int64_t* shape, int ndim,
                             size_t bytes, TF_Status* status) -> TF_Tensor* {
    if (!allocates) {
      *status = {kTfInternal, "no memory"};
      return nullptr;
    }
    TF_Tensor* const tensor = NewTensor(dtype, shape, ndim, bytes);
    ++tensor->owners;
    context->outputs[i] = tensor;
    return tensor;
  };
  api.TF_SetOutput = [](TF_OpKernelContext* context, int i, const TF_Tensor* tensor, TF_Status*) {
    context->outputs[i] = const_cast<TF_Tensor*>(tensor);
    ++context->outputs[i]->owners;
  };
  api.TF_OpKernelContext_Failure = [](TF_OpKernelContext* context, TF_Status* status) {
    context->code = status->code;
    context->text = status->text;
  };
  api.TF_DeleteTensor = Drop;
  api.TF_TensorData = [](const TF_Tensor* tensor) -> void* { return const_cast<char*>(tensor->bytes.data()); };
  api.TF_TensorByteSize = [](const TF_Tensor* tensor) { return tensor->bytes.size(); };
  api.TF_NumDims = [](const TF_Tensor* tensor) { return static_cast<int>(tensor->shape.size()); };
  api.TF_Dim = [](const TF_Tensor* tensor, int i) { return tensor->shape[i]; };
  api.TF_TensorType = [](const TF_Tensor* tensor) { return tensor->dtype; };
  api.TF_RunAsyncOpKernelDoneCallback = [](TF_AsyncOpKernelDoneCallback* done) {
    (*reinterpret_cast<std::function<void()>*>(done))();
  };
  return api;
}

struct Core {
  std::vector<farandole_submission> submissions;
  std::vector<std::string> names;
  std::vector<std::string> groups;
  int fails_at = -1;  // which call of submit
  int calls = 0;
  int released = 0;
  int size = 2;
  // Ends operations inside of submit.
  bool at_once = false;

  void End(int code = FARANDOLE_OK) {
    const std::vector<farandole_submission> all = std::move(submissions);
    submissions.clear();
    for (const farandole_submission& each : all) each.done(each.ctx, code, "rank 1 is gone", nullptr);
  }
};
Core core_state;

plugin::CoreFunctions FakeCore() {
  plugin::CoreFunctions core{};
  core.submit = [](const farandole_submission* submissions, int count, const char* group, int64_t* handles) {
    if (core_state.calls++ == core_state.fails_at) return int{FARANDOLE_DUPLICATE_NAME};
    core_state.groups.push_back(group == nullptr ? "" : group);
    for (int i = 0; i < count; ++i) {
      core_state.submissions.push_back(submissions[i]);
      core_state.names.push_back(submissions[i].name == nullptr ? "" : submissions[i].name);
      if (handles != nullptr) handles[i] = 70 + i;
    }
    if (core_state.at_once) core_state.End();
    return int{FARANDOLE_OK};
  };
  core.last_error = [] { return "still being processed"; };
  core.release = [](int64_t) { return ++core_state.released, int{FARANDOLE_OK}; };
  core.process_set_size = [](uint32_t) { return core_state.size; };
  core.process_set_included = [](uint32_t) { return 1; };
  core.result_splits = [](int64_t, int64_t* splits) {
    splits[0] = 1;
    splits[1] = 2;
    return int{FARANDOLE_OK};
  };
  return core;
}

class WorkTest : public testing::Test {
 protected:
  WorkTest() { core_state = Core(); }
  ~WorkTest() override {
    for (TF_Tensor* tensor : context_.inputs) Drop(tensor);
    for (const auto& [i, tensor] : context_.outputs) Drop(tensor);
    EXPECT_EQ(live_tensors, 0);
    EXPECT_EQ(live_statuses, 0);
    allocates = true;
  }

  void Add(std::vector<int64_t> shape, int dtype = kTfFloat, size_t element = 4) {
    size_t bytes = element;
    for (int64_t extent : shape) bytes *= extent;
    context_.inputs.push_back(NewTensor(dtype, shape.data(), static_cast<int>(shape.size()), bytes));
  }

  void Start(const std::string& call) {
    ASSERT_TRUE(call_.Parse(call));
    // Gone when the kernel has returned, as TensorFlow's.
    std::function<void()> done = [this, kept = std::make_shared<int>(1)] { done_ += *kept; };
    Work::Start(api_, core_, call_, &context_, reinterpret_cast<TF_AsyncOpKernelDoneCallback*>(&done));
  }

  const TfApi api_ = FakeApi();
  const plugin::CoreFunctions core_ = FakeCore();
  plugin::Call call_;
  TF_OpKernelContext context_;
  int done_ = 0;
};

TEST_F(WorkTest, AGroupIsOneSubmissionAndEndsOnce) {
  Add({3});
  Add({});
  Start("1 1 0.5 2.0 0 7 0\ngroup\n\n\n");
  EXPECT_EQ(done_, 0);
  ASSERT_EQ(core_state.submissions.size(), 2u);
  EXPECT_EQ(core_state.groups, std::vector<std::string>{"group"});
  EXPECT_EQ(core_state.submissions[0].prescale, 0.5);
  EXPECT_EQ(core_state.submissions[1].process_set, 7u);
  std::thread([] { core_state.End(); }).join();
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(context_.code, kTfOk);
  EXPECT_EQ(context_.outputs.size(), 2u);
}

TEST_F(WorkTest, OperationsMayEndInsideOfSubmit) {
  core_state.at_once = true;
  for (int i = 0; i < 3; ++i) Add({3});
  Start("3 0 1 1 0 0 0\ngroup\nbroadcast.a\nbroadcast.b\nbroadcast.c\n");
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(core_state.names, (std::vector<std::string>{"broadcast.a", "broadcast.b", "broadcast.c"}));
}

TEST_F(WorkTest, ASubmissionThatIsRefusedWaitsForThoseBefore) {
  for (int i = 0; i < 3; ++i) Add({3});
  core_state.fails_at = 1;
  Start("3 0 1 1 0 0 0\ngroup\na\nb\nc\n");
  EXPECT_EQ(done_, 0);
  ASSERT_EQ(core_state.submissions.size(), 1u);
  core_state.End();
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(context_.code, kTfInvalidArgument);
  EXPECT_EQ(context_.text, "farandole error -3: still being processed");
}

TEST_F(WorkTest, OneRankPassesOnWhatItHas) {
  core_state.size = 1;
  Add({3});
  Add({});
  Start("1 1 1 1 0 0 0\ngroup\n\n\n");
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(core_state.calls, 0);
  ASSERT_EQ(context_.outputs.size(), 2u);
  EXPECT_EQ(context_.outputs[0], context_.inputs[0]);
  EXPECT_EQ(context_.outputs[1], context_.inputs[1]);
}

TEST_F(WorkTest, OneRankMultipliesByFactors) {
  core_state.size = 1;
  core_state.at_once = true;
  Add({3});
  Start("1 1 0.5 1 0 0 0\ngroup\nx\n");
  EXPECT_EQ(core_state.calls, 1);
  EXPECT_NE(context_.outputs[0], context_.inputs[0]);
}

TEST_F(WorkTest, TellsALostPeer) {
  Add({3});
  Start("1 1 1 1 0 0 0\ng\nx\n");
  core_state.End(FARANDOLE_PEER_LOST);
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(context_.code, kTfUnknown);
  EXPECT_EQ(context_.text, "farandole error -5: rank 1 is gone");
}

TEST_F(WorkTest, AnAllgatherMayAllocateTwice) {
  Add({3, 2});
  Start("2 0 1 1 0 0 0\ng\nx\n");
  ASSERT_EQ(core_state.submissions.size(), 1u);
  const farandole_submission given = core_state.submissions[0];
  EXPECT_EQ(given.out.data, nullptr);
  for (const int64_t rows : {5, 4}) {
    const int64_t shape[] = {rows, 2};
    EXPECT_NE(given.allocate(given.ctx, 2, shape), nullptr);
  }
  core_state.End();
  ASSERT_EQ(context_.outputs.count(0), 1u);
  EXPECT_EQ(context_.outputs[0]->shape, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(context_.outputs[0]->bytes.size(), 32u);
}

TEST_F(WorkTest, AnAlltoallTellsWhatCame) {
  Add({3});
  Add({2}, kTfInt64, 8);
  Start("5 0 1 1 0 0 0\ng\nx\n");
  ASSERT_EQ(core_state.submissions.size(), 1u);
  const farandole_submission given = core_state.submissions[0];
  EXPECT_EQ(given.splits_count, 2);
  const int64_t shape[] = {3};
  given.allocate(given.ctx, 1, shape);
  core_state.End();
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(core_state.released, 1);
  ASSERT_EQ(context_.outputs.count(1), 1u);
  EXPECT_EQ(reinterpret_cast<const int64_t*>(context_.outputs[1]->bytes.data())[1], 2);
}

TEST_F(WorkTest, NothingIsSubmittedWithoutMemoryOrForTypesThatCannotBeCombined) {
  Add({3}, kTfComplex64, 8);
  Start("1 1 1 1 0 0 0\ng\nx\n");
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(context_.code, kTfInvalidArgument);
  allocates = false;
  context_.code = kTfOk;
  Start("3 0 1 1 0 0 0\ng\nx\n");
  EXPECT_EQ(done_, 2);
  EXPECT_EQ(context_.code, kTfInternal);
  Start("3 0 1 1 0 0 0\ng\nx\ny\n");
  EXPECT_EQ(done_, 3);
  EXPECT_EQ(core_state.calls, 0);
}

}  // namespace
}  // namespace farandole::frameworks::tensorflow
